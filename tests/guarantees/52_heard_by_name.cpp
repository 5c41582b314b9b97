// SPDX-License-Identifier: MIT
// Line 52: a program or library that defines munmap and madvise hears of every page of a block that goes.
#include "52_heard_memory.hpp"

extern "C" int munmap(void* start, size_t bytes) noexcept {
  return guarantee::heard::listen_to_munmap(start, bytes);
}
extern "C" int madvise(void* start, size_t bytes, int advice) noexcept {
  return guarantee::heard::listen_to_madvise(start, bytes, advice);
}

int main() {
  guarantee::start();
  return guarantee::heard::check_all();
}
