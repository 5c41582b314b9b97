// SPDX-License-Identifier: MIT
// moving: which blocks a program should move, that moving empties sparse spans, and what cannot be moved.
#include "malloc/moving.hpp"
#include "background/reclaim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "malloc/allocate.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

constexpr std::size_t moved_size = 700;

// Blocks of one size, most of them freed, so that their spans are sparse.
class sparse_blocks {
 public:
  sparse_blocks() {
    for (int i = 0; i < 20000; ++i) {
      blocks_.push_back(static_cast<unsigned char*>(tarn_malloc(moved_size)));
      std::memset(blocks_.back(), i & 255, moved_size);
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (i % 10 != 3) tarn_free(blocks_[i]);
    }
    for (std::size_t i = 3; i < blocks_.size(); i += 10) left_.push_back(blocks_[i]);
    tarn_trim(0);
  }
  ~sparse_blocks() {
    for (unsigned char* const block : left_) tarn_free(block);
  }
  void expect_contents() const {
    for (std::size_t i = 0; i < left_.size(); ++i) {
      for (std::size_t k = 0; k < moved_size; k += 99) EXPECT_EQ(left_[i][k], (10 * i + 3) & 255);
    }
  }
  std::vector<unsigned char*> left_;

 private:
  std::vector<unsigned char*> blocks_;
};

TEST(moving, empties_sparse_spans) {
  if constexpr (hardened_build) GTEST_SKIP() << "freed blocks wait in a quarantine";
  sparse_blocks blocks;
  const std::size_t before = engine::heap.in_use_bytes();
  std::size_t moves = 0;
  for (int pass = 0; pass < 8; ++pass) {
    for (unsigned char*& block : blocks.left_) {
      if (tarn_would_move(block, 1.125) == 0) continue;
      block = static_cast<unsigned char*>(tarn_move(block));
      ASSERT_NE(block, nullptr);
      ++moves;
    }
  }
  tarn_trim(0);
  blocks.expect_contents();
  EXPECT_GT(moves, blocks.left_.size() / 2);
  EXPECT_LT(moves, blocks.left_.size() * 3);
  // 2,000 blocks of 704 bytes are 1.4 MB; they lay in 14 MB.
  EXPECT_LT(engine::heap.in_use_bytes() + 8 * mib, before);
}

// Where spans of other sizes are sparse, runs of their grains serve a class; these are aligned to 16 only.
TEST(moving, keeps_the_alignment_where_grains_serve_the_class) {
  if constexpr (hardened_build) GTEST_SKIP() << "the hardened build divides no span";
  std::mt19937 random(1);
  std::vector<void*> sparse;
  for (int i = 0; i < 60000; ++i) sparse.push_back(tarn_malloc(40 + random() % 600));
  std::shuffle(sparse.begin(), sparse.end(), random);
  for (; sparse.size() > 7500; sparse.pop_back()) tarn_free(sparse.back());
  engine::reclaim();
  tarn_trim(0);
  std::size_t of_grains = 0;
  std::vector<void*> blocks;
  for (std::size_t alignment = 32; alignment <= 4096; alignment *= 2) {
    for (std::size_t i = 0; i < 300; ++i) {
      void* const block = tarn_aligned_alloc(alignment, 60 + random() % alignment);
      blocks.push_back(tarn_move(block));
      ASSERT_EQ(address_of(blocks.back()) % alignment, 0U) << "from " << block;
      void* const plain = tarn_move(tarn_malloc(alignment));
      of_grains +=
          size_classes::is_grain(static_cast<unsigned>(engine::map.class_of(address_of(plain)))) ? 1 : 0;
      blocks.push_back(plain);
    }
  }
  EXPECT_GT(of_grains, 0U) << "no block is of grains, so this has tested nothing";
  for (void* const block : blocks) tarn_free(block);
  for (void* const block : sparse) tarn_free(block);
}

TEST(moving, leaves_what_is_aligned_to_more_than_a_page_alone) {
  void* const block = tarn_aligned_alloc(8 * page_size, 100);
  EXPECT_EQ(tarn_move(block), block);
  tarn_free(block);
}

TEST(moving, asks_more_of_a_smaller_ratio) {
  if constexpr (hardened_build) GTEST_SKIP() << "freed blocks wait in a quarantine";
  const sparse_blocks blocks;
  std::size_t helped[3] = {};
  const double ratios[] = {0.0, 0.5, 1.5};
  for (int i = 0; i < 3; ++i) {
    for (unsigned char* const block : blocks.left_)
      helped[i] += tarn_would_move(block, ratios[i]) != 0 ? 1 : 0;
  }
  EXPECT_EQ(helped[0], 0U);
  EXPECT_LE(helped[1], helped[2]);
  EXPECT_GT(helped[2], blocks.left_.size() / 2);
}

TEST(moving, answers_for_many_blocks_as_for_each) {
  if constexpr (hardened_build) GTEST_SKIP() << "freed blocks wait in a quarantine";
  const sparse_blocks blocks;
  std::vector<unsigned char> results(blocks.left_.size(), 7);
  const std::vector<const void*> asked(blocks.left_.begin(), blocks.left_.end());
  const std::size_t ones = tarn_would_move_each(asked.data(), asked.size(), 1.0, results.data());
  std::size_t counted = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(results[i], tarn_would_move(asked[i], 1.0));
    counted += results[i];
  }
  EXPECT_EQ(ones, counted);
  EXPECT_EQ(tarn_would_move_each(nullptr, 0, 1.0, nullptr), 0U);
}

TEST(moving, leaves_dense_and_large_and_foreign_memory_alone) {
  std::vector<void*> dense;
  for (int i = 0; i < 3000; ++i) dense.push_back(tarn_malloc(moved_size));
  std::size_t helped = 0;
  for (const void* const block : dense) helped += tarn_would_move(block, 1.0) != 0 ? 1 : 0;
  EXPECT_LT(helped, 30U);
  for (void* const block : dense) tarn_free(block);
  void* const large = tarn_malloc(mib);
  EXPECT_EQ(tarn_would_move(large, 100.0), 0);
  EXPECT_EQ(tarn_move(large), large);
  tarn_free(large);
  int on_stack = 0;
  EXPECT_EQ(tarn_would_move(nullptr, 100.0), 0);
  EXPECT_EQ(tarn_would_move(&on_stack, 100.0), 0);
  EXPECT_EQ(tarn_would_move(reinterpret_cast<void*>(~std::uintptr_t{0}), 100.0), 0);
}

TEST(moving, keeps_every_byte_of_each_size) {
  for (std::size_t bytes = 1; bytes < 200000; bytes += 1 + bytes / 5) {
    auto* block = static_cast<unsigned char*>(tarn_malloc(bytes));
    const std::size_t usable = tarn_usable_size(block);
    for (std::size_t i = 0; i < usable; ++i) block[i] = static_cast<unsigned char>(i * 31);
    block = static_cast<unsigned char*>(tarn_move(block));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(tarn_usable_size(block), usable);
    for (std::size_t i = 0; i < usable; ++i) ASSERT_EQ(block[i], static_cast<unsigned char>(i * 31));
    tarn_free(block);
  }
}

}  // namespace
}  // namespace tarn
