// SPDX-License-Identifier: MIT
// allocation: flags that the C programs of tests/jemalloc cannot judge from outside: past the caches, and in an arena.
#include <gtest/gtest.h>

#include "jemalloc/arena_table.hpp"
#include "jemalloc/exported.hpp"
#include "runtime/engine.hpp"

namespace tarn::jemalloc {
namespace {

constexpr int no_cache = 1 << 8;
constexpr int zeroed = 0x40;
constexpr int in_arena(unsigned index) { return static_cast<int>((index + 1) << 20); }

TEST(allocation, without_a_cache_an_object_comes_from_the_fullest_span_and_goes_back_there) {
  constexpr std::size_t size = 3000;
  void* blocks[400];
  for (void*& block : blocks) block = mallocx(size, no_cache);
  central::occupancy before{};
  ASSERT_TRUE(engine::central_tier.occupancy_of(blocks[0], before));
  dallocx(blocks[0], no_cache);
  central::occupancy after{};
  ASSERT_TRUE(engine::central_tier.occupancy_of(blocks[1], after));
  EXPECT_EQ(after.taken + 1, before.taken);
  void* const again = mallocx(size, no_cache);
  EXPECT_EQ(again, blocks[0]);
  for (void* const block : blocks) dallocx(block, no_cache);
}

TEST(allocation, an_arena_that_does_not_exist_has_no_memory) {
  EXPECT_EQ(mallocx(100, in_arena(500)), nullptr);
  void* const block = mallocx(100, 0);
  EXPECT_EQ(rallocx(block, 10000, in_arena(500)), nullptr);
  dallocx(block, 0);
}

TEST(allocation, rallocx_moves_into_the_arena_that_is_named) {
  unsigned index = 0;
  ASSERT_EQ(arenas.create(index), 0);
  void* block = mallocx(100, 0);
  EXPECT_EQ(scope_core::span_of(block), nullptr);
  block = rallocx(block, 100, in_arena(index) | no_cache);
  ASSERT_NE(scope_core::span_of(block), nullptr);
  block = rallocx(block, 110, in_arena(index) | zeroed);
  EXPECT_EQ(scope_core::owner_of(scope_core::span_of(block)).index, index);
  block = rallocx(block, 900000, in_arena(index));
  EXPECT_EQ(sallocx(block, 0) >= 900000, true);
  EXPECT_GT(arenas.find(index)->bytes().large, 0U);
  sdallocx(block, 900000, 0);
  EXPECT_EQ(arenas.destroy(index), 0);
}

TEST(allocation, nallocx_is_what_mallocx_gives) {
  for (const int lg : {0, 3, 4, 5, 8, 12, 13, 14, 20}) {
    for (std::size_t size = 1; size < 600000; size += 1 + size / 7) {
      void* const block = mallocx(size, lg);
      EXPECT_EQ(nallocx(size, lg), sallocx(block, 0)) << size << " " << lg;
      dallocx(block, 0);
    }
  }
}

}  // namespace
}  // namespace tarn::jemalloc
