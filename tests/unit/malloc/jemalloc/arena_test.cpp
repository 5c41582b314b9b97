// SPDX-License-Identifier: MIT
// An arena that the program has made (fronts/scopes/scope_core.hpp): blocks of each size and alignment; reset frees all; misuse is found; the invariants.
#include "fronts/scopes/scope_core.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "broken_invariant.hpp"
#include "engine/engine.hpp"
#include "malloc/entry_points.hpp"
#include "malloc/jemalloc/arena_table.hpp"

namespace tarn::jemalloc {

class arena_test : public testing::Test {
 protected:
  arena_test() {
    EXPECT_EQ(arenas.create(index), 0);
    arena = arenas.find(index);
  }
  ~arena_test() override { EXPECT_EQ(arenas.destroy(index), 0); }

  unsigned index = 0;
  scope_core* arena = nullptr;
};

TEST_F(arena_test, serves_each_size_and_alignment) {
  for (std::size_t alignment = 1; alignment <= mib; alignment *= 2) {
    for (const std::size_t size : {0UL, 1UL, 8UL, 100UL, 4097UL, 262144UL, 262145UL, 3000000UL}) {
      auto* const block = static_cast<unsigned char*>(arena->allocate(size, alignment));
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(address_of(block) % alignment, 0U);
      const std::size_t usable = tarn::usable_size(block);
      EXPECT_GE(usable, size);
      std::memset(block, 0xab, usable);
      EXPECT_EQ(scope_core::owner_of(scope_core::span_of(block)).index, index);
      deallocate(block);
    }
  }
  EXPECT_EQ(arena->bytes().small + arena->bytes().large, 0U);
}

TEST_F(arena_test, blocks_are_apart_and_keep_their_bytes) {
  std::mt19937 random(1);
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (int i = 0; i < 20000; ++i) {
    if (!blocks.empty() && random() % 5 < 2) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [block, size] = blocks.back();
      for (std::size_t k = 0; k < size; k += 13) ASSERT_EQ(block[k], static_cast<unsigned char>(size));
      deallocate(block);
      blocks.pop_back();
    } else {
      const std::size_t size = 1 + random() % (i % 100 == 0 ? 300000 : 2000);
      auto* const block = static_cast<unsigned char*>(arena->allocate(size, 1));
      ASSERT_NE(block, nullptr);
      std::memset(block, static_cast<unsigned char>(size), size);
      blocks.emplace_back(block, size);
    }
  }
  os::lock_guard guard(arena->lock());
  arena->validate_locked();
}

TEST_F(arena_test, reset_gives_all_memory_back) {
  const std::size_t before = engine::heap.in_use_bytes();
  for (int i = 0; i < 5000; ++i) ASSERT_NE(arena->allocate(1 + static_cast<std::size_t>(i), 1), nullptr);
  EXPECT_GT(engine::heap.in_use_bytes(), before + 10 * mib);
  arena->reset();
  EXPECT_LE(engine::heap.in_use_bytes(), before + mib);
  EXPECT_EQ(arena->bytes().spans, 0U);
  EXPECT_NE(arena->allocate(100, 1), nullptr);
}

TEST_F(arena_test, refuses_what_is_too_large) {
  EXPECT_EQ(arena->allocate(SIZE_MAX / 2, 1), nullptr);
  EXPECT_EQ(arena->allocate(1, std::size_t{1} << 62), nullptr);
  EXPECT_EQ(arena->bytes().spans, 0U);
}

TEST_F(arena_test, realloc_moves_a_block_with_its_bytes) {
  void* block = arena->allocate(100, 1);
  std::memset(block, 7, 100);
  block = entry::realloc(block, 5000);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(static_cast<char*>(block)[i], 7);
  EXPECT_EQ(arena->bytes().small, 0U);
  deallocate(block);
}

#if !TARN_ASAN && !TARN_TSAN
TEST_F(arena_test, ends_the_process_on_misuse) {
  auto* const block = static_cast<char*>(arena->allocate(100, 1));
  ASSERT_NE(arena->allocate(100, 1), nullptr);
  EXPECT_DEATH(deallocate(block + 8), "into a block");
  EXPECT_DEATH(
      {
        deallocate(block);
        deallocate(block);
      },
      "double free");
  void* const large = arena->allocate(mib, 1);
  EXPECT_DEATH(deallocate(static_cast<char*>(large) + 4096), "into a block");
}
#endif

}  // namespace tarn::jemalloc
