// SPDX-License-Identifier: MIT
// realloc between size classes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "malloc/allocate.hpp"
#include "malloc/block.hpp"

namespace tarn {
namespace {

TEST(resize, realloc_keeps_the_content_across_all_sizes) {
  std::mt19937 random(8);
  std::vector<unsigned char> content;
  unsigned char* block = nullptr;
  for (int step = 0; step < 2000; ++step) {
    const std::size_t size = 1 + random() % (random() % 8 == 0 ? 3000000 : 5000);
    block = static_cast<unsigned char*>(block == nullptr ? allocate(size) : reallocate(block, size));
    ASSERT_NE(block, nullptr);
    const std::size_t kept = std::min(size, content.size());
    ASSERT_TRUE(kept == 0 || std::memcmp(block, content.data(), kept) == 0) << "to " << size << " bytes";
    content.resize(size);
    for (std::size_t i = kept; i < size; i += 997) content[i] = static_cast<unsigned char>(random());
    std::memcpy(block, content.data(), size);
  }
  deallocate(block);
}

TEST(resize, realloc_to_a_size_not_much_less_stays_where_it_is) {
  void* const block = allocate(1000);
  const std::size_t have = usable_size(block);
  EXPECT_EQ(reallocate(block, have), block);
  EXPECT_EQ(reallocate(block, have / 2 + 1), block);
  void* const less = reallocate(block, have / 4);
  EXPECT_LT(usable_size(less), have) << "a quarter is used: the other bytes must be freed";
  deallocate(less);
}

TEST(resize, a_block_that_grows_in_small_steps_is_copied_at_most_five_times_per_doubling) {
  void* block = allocate(1024);
  int moves = 0;
  for (std::size_t size = 1024; size <= 64 * kib; size += 16) {
    void* const before = block;
    block = reallocate(block, size);
    ASSERT_NE(block, nullptr);
    moves += block != before ? 1 : 0;
    EXPECT_LE(usable_size(block), size + size / 8 + size / 8) << "the growth wastes no more than two classes";
  }
  EXPECT_LE(moves, 5 * 6);
  deallocate(block);
}

TEST(resize, realloc_does_not_move_a_block_of_the_smallest_class) {
  void* const block = allocate(1);
  const std::size_t have = usable_size(block);
  for (std::size_t size = have; size != 0; --size) EXPECT_EQ(reallocate(block, size), block) << size;
  deallocate(block);
}

TEST(resize, what_stays_for_sure_is_a_live_object_that_is_more_than_half_used) {
  if (hardened_build) GTEST_SKIP() << "the hardened build looks at the canary in every case";
  std::vector<void*> blocks;
  for (std::size_t size = 16; size <= largest_class_size; size += size / 5 + 1) {
    void* const block = allocate(size);
    const std::size_t have = usable_size(block);
    // Of a run of grains nothing is sure.
    const pointee found = classify(block);
    const bool is_sure = found.kind == block_kind::object && !size_classes::is_grain(found.size_class);
    EXPECT_EQ(stays_for_sure(block, have), is_sure) << size;
    EXPECT_EQ(stays_for_sure(block, have / 2 + 1), is_sure) << size;
    EXPECT_FALSE(stays_for_sure(block, have + 1)) << size;
    EXPECT_FALSE(stays_for_sure(block, have / 2)) << size;
    EXPECT_FALSE(stays_for_sure(block, 0)) << size;
    EXPECT_FALSE(stays_for_sure(static_cast<char*>(block) + 8, have)) << size;
    blocks.push_back(block);
  }
  for (void* const block : blocks) deallocate(block);
  void* const large = allocate(largest_class_size + 1);
  EXPECT_FALSE(stays_for_sure(large, largest_class_size));
  deallocate(large);
  EXPECT_FALSE(stays_for_sure(nullptr, 0));
  EXPECT_FALSE(stays_for_sure(nullptr, 16));
  int outside = 0;
  EXPECT_FALSE(stays_for_sure(&outside, sizeof outside));
}

TEST(resize, a_freed_block_does_not_stay) {
  if (hardened_build) GTEST_SKIP() << "the hardened build looks at the canary in every case";
  void* const block = allocate(1000);
  const std::size_t have = usable_size(block);
  deallocate(block);
  EXPECT_FALSE(stays_for_sure(block, have));
}

}  // namespace
}  // namespace tarn
