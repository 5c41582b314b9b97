// SPDX-License-Identifier: MIT
// Aligned blocks, blocks between dropped pages, and objects that come directly from a span.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "background/reclaim.hpp"
#include "malloc/allocate.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

TEST(miss, every_alignment_with_every_kind_of_size) {
  std::vector<void*> live;
  for (std::size_t alignment = 1; alignment <= 32 * mib; alignment *= 2) {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{17}, alignment - 1, alignment, alignment + 1,
          3 * alignment / 2, std::size_t{100000}, largest_class_size, largest_class_size + 1}) {
      auto* const block = static_cast<char*>(allocate_aligned(alignment, size));
      ASSERT_NE(block, nullptr) << alignment << ", " << size;
      ASSERT_EQ(address_of(block) % alignment, 0U) << size;
      ASSERT_GE(usable_size(block), size) << alignment;
      std::memset(block, 1, size < mib ? size : mib);
      live.push_back(block);
    }
    if (live.size() > 100) {
      for (void* block : live) deallocate(block);
      live.clear();
    }
  }
  for (void* block : live) deallocate(block);
}

TEST(miss, aligned_blocks_up_to_a_page_come_from_classes) {
  for (std::size_t alignment = 32; alignment <= page_size; alignment *= 2) {
    for (std::size_t size = 1; size <= 20000; size += 61) {
      void* const block = allocate_aligned(alignment, size);
      const auto c = static_cast<unsigned>(engine::map.class_of(address_of(block)));
      if (engine::guards.contains(block)) {
        deallocate(block);
        continue;
      }
      ASSERT_NE(c, 0U) << alignment << ", " << size;
      // It must be the smallest class that fits and whose objects are all aligned.
      for (unsigned less = 1; less < c; ++less) {
        ASSERT_FALSE(class_info(less).size >= size && class_info(less).size % alignment == 0)
            << class_info(less).size << " would be enough for " << size << " with alignment " << alignment;
      }
      deallocate(block);
    }
  }
}

TEST(miss, blocks_between_dropped_pages_are_used_like_any_other) {
  if constexpr (hardened_build) GTEST_SKIP() << "it drops no pages between blocks";
  constexpr std::size_t size = 700;
  std::vector<unsigned char*> blocks(4000);
  for (auto*& block : blocks) std::memset(block = static_cast<unsigned char*>(allocate(size)), 5, size);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(3));
  for (; blocks.size() > 400; blocks.pop_back()) deallocate(blocks.back());
  engine::reclaim();
  if (engine::central_tier.purge_idle_pages(true) == 0) GTEST_SKIP() << "no page lies between blocks";
  std::size_t unlisted = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    unsigned char* block = blocks[i];
    unlisted += engine::map.class_of(address_of(block)) == 0 ? 1 : 0;
    ASSERT_EQ(usable_size(block), class_info(class_of_size(size)).size);
    ASSERT_EQ(reallocate(block, size), block) << "it fits";
    if (i % 2 == 0) block = static_cast<unsigned char*>(reallocate(block, 5 * size));
    ASSERT_EQ(std::count(block, block + size, 5), static_cast<std::ptrdiff_t>(size));
    i % 3 == 0 ? deallocate_uncached(block) : deallocate(block);
  }
  EXPECT_GT(unlisted, blocks.size() / 4);
  engine::reclaim();
  engine::central_tier.depots().validate();
}

TEST(miss, a_trim_that_keeps_memory_drops_no_pages_between_blocks) {
  if constexpr (hardened_build) GTEST_SKIP() << "it drops no pages between blocks";
  // What earlier tests have freed would go back meanwhile, by time.
  tarn_set_option("decay_ms", "-1");
  engine::reclaim();
  std::vector<void*> blocks(4000);
  for (void*& block : blocks) block = allocate(700);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 8 != 0) deallocate(blocks[i]);
  }
  const std::size_t returned = engine::heap.stats().returned;
  EXPECT_EQ(tarn_trim(~std::size_t{0}), 0U);
  EXPECT_EQ(engine::heap.stats().returned, returned);
  tarn_set_option("decay_ms", "1000");
  for (std::size_t i = 0; i < blocks.size(); i += 8) deallocate(blocks[i]);
}

TEST(miss, an_object_from_its_span_at_once_is_freed_like_any_other) {
  // A magazine for one object, on the stack, as threads without a cache use it.
  struct {
    magazine head;
    void* slot;
  } single{};
  const unsigned c = class_of_size(500);
  ASSERT_EQ(engine::central_tier.refill(c, &single.head, 1), 1U);
  void* const object = single.head.bottom()[0];
  std::memset(object, 1, 500);
  deallocate(object);
}

}  // namespace
}  // namespace tarn
