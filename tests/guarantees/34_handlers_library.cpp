// SPDX-License-Identifier: MIT
// A library that registers fork handlers in its constructor, which runs before that of a preloaded library unless that
// one is linked with -z initfirst. The handlers do what the program has set in *fork_handlers().
#include "34_handlers_library.hpp"

#include <pthread.h>

namespace {

handlers set{};

void call(void (*handler)()) {
  if (handler != nullptr) handler();
}

[[gnu::constructor]] void at_load() {
  pthread_atfork([] { call(set.prepare); }, [] { call(set.parent); }, [] { call(set.child); });
}

}  // namespace

handlers* fork_handlers() { return &set; }
