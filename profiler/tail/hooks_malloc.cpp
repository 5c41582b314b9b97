// SPDX-License-Identifier: MIT
// Hooks of the malloc family, in front of the next malloc; and this library's start.
#include "profiler/record/session.hpp"
#include "profiler/tail/tail_hooks.hpp"

using namespace tarn::profiler::tail;

namespace {

[[gnu::constructor(101)]] void begin() {
  if (!are_found()) return;
  next_operators();
  begin_process();
}

template <class call>
[[gnu::always_inline]] inline void* get(tarn::profiler::word_kind, call forward, std::size_t size,
                                        std::size_t) {
  return timed_get(forward, size);
}
template <class call>
[[gnu::always_inline]] inline void give(call forward, void* block) {
  timed_give(forward, block);
}
template <class call>
[[gnu::always_inline]] inline void* resize(call forward, void* block, std::size_t size) {
  return timed_resize(forward, block, size);
}

}  // namespace

#include "profiler/record/forwarded_malloc.hpp"
