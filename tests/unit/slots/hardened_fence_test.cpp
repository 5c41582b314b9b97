// SPDX-License-Identifier: MIT
// hardened_fence: a write that runs on from a small block ends at a fence, and fences go back with their spans.
#include "slots/hardened_fence.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <vector>

#include "engine/engine.hpp"
#include "os/hardened_guard.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

constexpr std::size_t run_bytes = 4 * mib;

// A program's heap of some MiB, then a write from a block before many: there may be no fence between the last block and free
// memory behind it.
void run_on(std::size_t size) {
  std::vector<volatile char*> blocks(8 * mib / size);
  for (volatile char*& block : blocks) block = static_cast<volatile char*>(tarn_malloc(size));
  std::ranges::sort(blocks);
  const std::size_t many = mib / size;
  std::size_t first = 0;
  while (first + many < blocks.size() && blocks[first + many] - blocks[first] > 2 * std::ptrdiff_t{mib})
    ++first;
  for (std::size_t i = 0; i < run_bytes; ++i) blocks[first][i] = 1;
}

bool system_has_markers() {
  void* const page = mmap(nullptr, 64 * kib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool marks = page != MAP_FAILED && os::mark_guard(page, 64 * kib);
  munmap(page, 64 * kib);
  return marks;
}

TEST(hardened_fence_death, a_write_that_runs_on_from_a_small_block_faults) {
  if (!system_has_markers()) GTEST_SKIP() << "Linux before 6.13";
  for (const std::size_t size : {16U, 64U, 1000U, 8192U, 65'536U, 200'000U})
    EXPECT_EXIT(run_on(size), testing::KilledBySignal(SIGSEGV), "") << size;
}

TEST(hardened_fence, fences_go_back_with_their_spans) {
  const auto use_and_free = [] {
    std::vector<void*> blocks(2000);
    for (void*& block : blocks) block = tarn_malloc(30'000);
    for (void* const block : blocks) tarn_free(block);
    tarn_trim(0);
    return engine::heap.in_use_bytes();
  };
  const std::size_t first = use_and_free();
  std::size_t last = 0;
  for (int round = 0; round < 5; ++round) last = use_and_free();
  EXPECT_LE(last, first + 2 * mib);
}

}  // namespace
}  // namespace tarn
