// SPDX-License-Identifier: MIT
// allocation: flags that the C programs of tests/jemalloc cannot judge from outside: past the caches, and in an arena.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/engine.hpp"
#include "malloc/block.hpp"
#include "malloc/jemalloc/arena_table.hpp"
#include "malloc/jemalloc/exported.hpp"
#include "os/memory.hpp"

namespace tarn::jemalloc {
namespace {

constexpr int no_cache = 1 << 8;
constexpr int zeroed = 0x40;
constexpr int in_arena(unsigned index) { return static_cast<int>((index + 1) << 20); }

TEST(allocation, without_a_cache_an_object_comes_from_the_fullest_span_and_goes_back_there) {
  constexpr std::size_t size = 3000;
  void* blocks[400];
  for (void*& block : blocks) block = mallocx(size, no_cache);
  class_depots::occupancy before{};
  ASSERT_TRUE(
      engine::central_tier.depots().occupancy_of(*classify(blocks[0]).cut(blocks[0]), blocks[0], before));
  dallocx(blocks[0], no_cache);
  class_depots::occupancy after{};
  ASSERT_TRUE(
      engine::central_tier.depots().occupancy_of(*classify(blocks[1]).cut(blocks[1]), blocks[1], after));
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

TEST(allocation, rallocx_keeps_the_alignment_of_every_size) {
  for (int lg = 3; lg <= 14; ++lg) {
    for (const std::size_t from : {1, 300, 5000, 300'000}) {
      for (std::size_t to = 1; to < 600'000; to += 1 + to / 3) {
        void* const block = rallocx(mallocx(from, lg), to, lg);
        ASSERT_EQ(address_of(block) >> lg << lg, address_of(block))
            << from << " to " << to << " aligned to " << lg;
        ASSERT_GE(sallocx(block, 0), to);
        dallocx(block, 0);
      }
    }
  }
}

TEST(allocation, a_large_block_has_the_size_that_nallocx_says_also_after_it_shrank) {
  for (const std::size_t to : {7'840'000, 5'000'000, 300'000}) {
    void* const block = rallocx(mallocx(7'850'000, 0), to, 0);
    EXPECT_EQ(sallocx(block, 0), nallocx(to, 0));
    dallocx(block, 0);
  }
}

std::size_t resident_bytes(const void* block, std::size_t bytes) {
  const std::size_t page = os::system_page_size();
  std::vector<unsigned char> pages(bytes / page);
  mincore(const_cast<void*>(block), bytes, pages.data());
  return page * static_cast<std::size_t>(
                    std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; }));
}

// By the alignment, past the cache, in an arena, and by making a block longer.
TEST(allocation, large_zeroed_blocks_are_not_written_to) {
  constexpr std::size_t bytes = 64 * mib;
  unsigned index = 0;
  ASSERT_EQ(arenas.create(index), 0);
  for (const int flags : {0, 6, 12, 16, no_cache, no_cache | 6, in_arena(index), in_arena(index) | 6}) {
    for (const std::size_t from : {std::size_t{0}, std::size_t{100}, mib}) {
      void* block = from == 0 ? mallocx(bytes, flags | zeroed) : mallocx(from, flags | zeroed);
      if (from != 0) block = rallocx(block, bytes, flags | zeroed);
      ASSERT_NE(block, nullptr);
      EXPECT_LT(resident_bytes(block, bytes), bytes / 2) << "flags " << flags << ", from " << from;
      const auto* const text = static_cast<const unsigned char*>(block);
      for (std::size_t i = 0; i < bytes; i += 4096) ASSERT_EQ(text[i], 0) << i;
      dallocx(block, flags & ~zeroed);
      engine::heap.trim(0);
    }
  }
  EXPECT_EQ(arenas.destroy(index), 0);
}

// The block stays where it is, and is longer than it says.
TEST(allocation, zeroes_what_a_shorter_block_gets_back) {
  unsigned index = 0;
  ASSERT_EQ(arenas.create(index), 0);
  for (const int flags : {zeroed, zeroed | in_arena(index)}) {
    for (const std::size_t size : {1000, 600'000}) {
      const std::size_t less = size * 3 / 4;
      auto* block = static_cast<unsigned char*>(mallocx(size, flags));
      std::memset(block, 0xa5, size);
      block = static_cast<unsigned char*>(rallocx(block, less, flags));
      const std::size_t known = nallocx(less, flags);
      block = static_cast<unsigned char*>(rallocx(block, size, flags));
      EXPECT_EQ(std::count(block + known, block + size, 0), static_cast<std::ptrdiff_t>(size - known));
      EXPECT_EQ(block[less - 1], 0xa5);
      dallocx(block, 0);
    }
  }
  EXPECT_EQ(arenas.destroy(index), 0);
}

TEST(allocation, zeroes_memory_that_was_used_before) {
  for (const int flags : {0, 6, 12, no_cache, no_cache | 6}) {
    for (const std::size_t from : {1, 100, 300'000, 5'000'000}) {
      for (const std::size_t to : {8, 24, 1000, 400'000, 5'500'000}) {
        void* const used = mallocx(6'000'000, flags);
        std::memset(used, 0xa5, 6'000'000);
        dallocx(used, flags);
        auto* block = static_cast<unsigned char*>(mallocx(from, flags | zeroed));
        block = static_cast<unsigned char*>(rallocx(block, to, flags | zeroed));
        const std::size_t have = sallocx(block, 0);
        ASSERT_EQ(std::count(block, block + have, 0), static_cast<std::ptrdiff_t>(have))
            << from << " to " << to;
        std::memset(block, 0xa5, have);
        dallocx(block, flags);
      }
    }
  }
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
