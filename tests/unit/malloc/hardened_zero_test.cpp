// SPDX-License-Identifier: MIT
// Blocks of 0 bytes in the hardened build: addresses of their own, without a byte that could be read or written.
#include "malloc/hardened_zero.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <set>

#include "tarn/malloc.h"

namespace tarn {
namespace {

using volatile_bytes = volatile unsigned char;

TEST(hardened_zero, each_block_is_another_one_and_comes_back_late) {
  std::set<void*> live;
  for (int i = 0; i < 1000; ++i) {
    void* const block = i % 2 == 0 ? tarn_malloc(0) : tarn_calloc(0, 8);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0U);
    EXPECT_EQ(tarn_usable_size(block), 0U);
    EXPECT_TRUE(live.insert(block).second);
  }
  for (void* const block : live) tarn_free(block);
  for (int i = 0; i < 1000; ++i) {
    void* const block = tarn_malloc(0);
    EXPECT_EQ(live.count(block), 0U) << "it has come back at once";
    tarn_free(block);
  }
}

TEST(hardened_zero, it_grows_by_realloc) {
  auto* const block = static_cast<volatile_bytes*>(tarn_realloc(tarn_malloc(0), 100));
  ASSERT_NE(block, nullptr);
  block[99] = 1;
  tarn_free(const_cast<unsigned char*>(block));
}

TEST(hardened_zero, beyond_the_range_blocks_are_ordinary_ones) {
  std::set<void*> live;
  for (std::size_t i = 0; i < hardened_zero::most_blocks + 1000; ++i)
    ASSERT_TRUE(live.insert(tarn_malloc(0)).second);
  std::size_t ordinary = 0;
  for (void* const block : live) {
    ordinary += hardened_zero::contains(block) ? 0 : 1;
    tarn_free(block);
  }
  EXPECT_GE(ordinary, 1000U);
  EXPECT_LT(ordinary, 2000U);
}

void read_it() {
  const auto* const block = static_cast<volatile_bytes*>(tarn_malloc(0));
  (void)*block;
}
void write_it() { *static_cast<volatile_bytes*>(tarn_malloc(0)) = 5; }

TEST(hardened_zero_death, whoever_reads_or_writes_it_faults) {
  EXPECT_EXIT(read_it(), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(write_it(), testing::KilledBySignal(SIGSEGV), "");
}

void free_twice() {
  void* volatile block = tarn_malloc(0);
  tarn_free(block);
  tarn_free(block);
}

void use_freed(void (*use)(void* block)) {
  void* volatile block = tarn_malloc(0);
  tarn_free(block);
  use(block);
}

TEST(hardened_zero_death, misuse_of_the_address_ends_the_process) {
  EXPECT_EXIT(free_twice(), testing::KilledBySignal(SIGABRT), "double free");
  EXPECT_EXIT(tarn_free(static_cast<char*>(tarn_malloc(0)) + 1), testing::KilledBySignal(SIGABRT),
              "invalid free of a pointer into a block");
  EXPECT_EXIT(use_freed([](void* block) { tarn_realloc(block, 10); }), testing::KilledBySignal(SIGABRT),
              "realloc of a pointer that is not a block");
  EXPECT_EXIT(use_freed([](void* block) { tarn_usable_size(block); }), testing::KilledBySignal(SIGABRT),
              "size asked of a pointer that is not a block");
}

}  // namespace
}  // namespace tarn
