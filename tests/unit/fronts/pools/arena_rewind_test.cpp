// SPDX-License-Identifier: MIT
// tarn::arena: mark and rewind, reset, release, the user's buffer, moves; which memory it keeps and which it returns.
#include "tarn/arena.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "fronts/pools/arena_support.hpp"

namespace tarn {
namespace {

using namespace testing_support;

TEST(arena_rewind_test, rewind_ends_what_was_made_since_and_nothing_else) {
  std::vector<int> ends;
  arena a;
  (void)a.create<noted>(ends, 0);
  const stamped_piece before(a.allocate(1000), 1000, 1);
  const arena::marker outer = a.mark();
  const std::size_t used = a.bytes_used();
  (void)a.create<noted>(ends, 1);
  const arena::marker inner = a.mark();
  (void)a.create<noted>(ends, 2);
  a.rewind(inner);
  EXPECT_EQ(ends, (std::vector<int>{2}));
  (void)a.create<noted>(ends, 3);
  a.rewind(outer);
  EXPECT_EQ(ends, (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(a.bytes_used(), used);
  const stamped_piece after(a.allocate(1000), 1000, 2);
  EXPECT_TRUE(before.intact());
}

TEST(arena_rewind_test, rewind_over_blocks_and_large_requests) {
  arena a;
  const stamped_piece before(a.allocate(1000), 1000, 1);
  const arena::marker mark = a.mark();
  const std::size_t used = a.bytes_used();
  for (int round = 0; round < 20; ++round) {
    std::vector<stamped_piece> pieces;
    for (std::size_t i = 0; i < 200; ++i) pieces.emplace_back(a.allocate(i * 50), i * 50, i);
    pieces.emplace_back(a.allocate(2 * mib), 2 * mib, 200);
    for (const stamped_piece& piece : pieces) ASSERT_TRUE(piece.intact());
    a.rewind(mark);
    EXPECT_EQ(a.bytes_used(), used);
    EXPECT_LT(a.bytes_reserved(), 3 * mib);
  }
  EXPECT_TRUE(before.intact());
}

// A large request has pages of its own, so the arena may have no block when a marker is set.
TEST(arena_rewind_test, what_is_large_and_older_than_the_marker_stays) {
  std::vector<int> ends;
  arena a;
  const stamped_piece before(a.allocate(mib), mib, 1);
  struct large_noted : noted {
    using noted::noted;
    unsigned char more[mib];
  };
  (void)a.create<large_noted>(ends, 0);
  const arena::marker outer = a.mark();
  const std::size_t used = a.bytes_used();
  for (int round = 0; round < 3; ++round) {
    (void)a.create<noted>(ends, 1);
    const arena::marker inner = a.mark();
    const stamped_piece piece(a.allocate(mib), mib, 2);
    const arena::marker innermost = a.mark();
    (void)a.create<large_noted>(ends, 2);
    a.rewind(innermost);
    EXPECT_TRUE(piece.intact());
    a.rewind(inner);
    a.rewind(outer);
    EXPECT_EQ(ends, (std::vector<int>{2, 1}));
    EXPECT_EQ(a.bytes_used(), used);
    EXPECT_TRUE(before.intact());
    ends.clear();
  }
  a.reset();
  EXPECT_EQ(ends, (std::vector<int>{0}));
}

TEST(arena_rewind_test, rewind_to_the_empty_arena) {
  arena a;
  const arena::marker mark = a.mark();
  const std::size_t used = a.bytes_used();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) std::memset(a.allocate(100), 1, 100);
    a.rewind(mark);
    EXPECT_EQ(a.bytes_used(), used);
  }
}

TEST(arena_rewind_test, the_last_allocation_may_be_taken_back) {
  arena a;
  (void)a.allocate(8, 8);
  const std::size_t used = a.bytes_used();
  for (int i = 0; i < 100'000; ++i) a.deallocate(a.allocate(64, 8), 64);
  EXPECT_EQ(a.bytes_used(), used);
  void* const first = a.allocate(64, 8);
  const stamped_piece second(a.allocate(64, 8), 64, 1);
  a.deallocate(first, 64);
  const stamped_piece third(a.allocate(64, 8), 64, 2);
  EXPECT_TRUE(second.intact());
  EXPECT_TRUE(third.intact());
}

TEST(arena_rewind_test, what_is_taken_back_behind_a_mark_is_not_lost_by_rewinding) {
  arena a;
  const stamped_piece before(a.allocate(64, 16), 64, 1);
  void* const last = a.allocate(64, 16);
  const arena::marker mark = a.mark();
  a.deallocate(last, 64);
  (void)a.allocate(16, 16);
  a.rewind(mark);
  for (std::size_t i = 0; i < 100; ++i) (void)stamped_piece(a.allocate(64, 16), 64, i);
  EXPECT_TRUE(before.intact());
}

TEST(arena_rewind_test, reset_keeps_the_memory_that_rounds_use) {
  arena a;
  const auto use = [&a] {
    for (int i = 0; i < 1000; ++i) std::memset(a.allocate(1000), i, 1000);
  };
  use();
  a.reset();
  const std::size_t pages = pages_in_use();
  const std::size_t reserved = a.bytes_reserved();
  EXPECT_GE(reserved, mib / 2);
  for (int round = 0; round < 50; ++round) {
    use();
    a.reset();
    EXPECT_EQ(a.bytes_used(), 0U);
  }
  EXPECT_LE(a.bytes_reserved(), 2 * reserved);
  EXPECT_LE(pages_in_use(), pages + reserved);
}

TEST(arena_rewind_test, reset_gives_back_what_recent_rounds_did_not_need) {
  const std::size_t before = pages_in_use();
  arena a;
  for (int i = 0; i < 64; ++i) std::memset(a.allocate(mib / 4), i, mib / 4);
  a.reset();
  EXPECT_GE(a.bytes_reserved(), 16 * mib);
  for (int round = 0; round < 60; ++round) {
    (void)a.allocate(1000);
    a.reset();
  }
  EXPECT_LE(a.bytes_reserved(), detail::least_kept);
  EXPECT_LE(pages_in_use(), before + detail::least_kept);
}

TEST(arena_rewind_test, rewinding_alone_gives_it_back_too) {
  arena a;
  (void)a.allocate(16);
  const arena::marker mark = a.mark();
  for (int i = 0; i < 64; ++i) std::memset(a.allocate(mib / 4), i, mib / 4);
  a.rewind(mark);
  EXPECT_GE(a.bytes_reserved(), 16 * mib);
  for (int round = 0; round < 100; ++round) {
    (void)a.allocate(1000);
    a.rewind(mark);
  }
  EXPECT_LE(a.bytes_reserved(), detail::least_kept);
}

TEST(arena_rewind_test, release_and_the_end_give_all_pages_back) {
  const std::size_t before = pages_in_use();
  {
    arena a;
    for (int i = 0; i < 300; ++i) (void)a.allocate(10'000);
    (void)a.allocate(5 * mib);
    EXPECT_GE(pages_in_use(), before + 8 * mib);
    a.release();
    EXPECT_EQ(a.bytes_reserved(), 0U);
    EXPECT_LE(pages_in_use(), before);
    (void)a.allocate(10'000);
    EXPECT_GT(pages_in_use(), before);
  }
  EXPECT_LE(pages_in_use(), before);
}

TEST(arena_rewind_test, reserve_takes_the_memory_at_once) {
  arena a;
  a.reserve(3 * mib);
  const std::size_t reserved = a.bytes_reserved();
  for (int i = 0; i < 3 * 1024 / 4; ++i) (void)a.allocate(4 * kib - detail::redzone);
  EXPECT_EQ(a.bytes_reserved(), reserved);
}

TEST(arena_rewind_test, a_buffer_is_used_first_and_again_after_a_reset) {
  const std::size_t before = pages_in_use();
  for (const std::size_t offset : {0U, 1U, 7U, 8U, 15U}) {
    std::vector<std::byte> memory(4096);
    std::byte* const buffer = memory.data() + offset;
    const std::size_t bytes = memory.size() - 16;
    const auto inside = [&](void* p) { return p >= buffer && p < buffer + bytes; };
    {
      arena a(buffer, bytes);
      for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 10; ++i) EXPECT_TRUE(inside(a.allocate(100)));
        EXPECT_LE(pages_in_use(), before);
        EXPECT_FALSE(inside(a.allocate(4096)));
        a.reset();
        EXPECT_EQ(a.bytes_used(), 0U);
        a.release();
        EXPECT_EQ(a.bytes_reserved(), bytes - (0 - reinterpret_cast<std::uintptr_t>(buffer)) % 16);
      }
    }
    std::memset(memory.data(), 1, memory.size());  // must not be poisoned: it is the user's again
  }
}

TEST(arena_rewind_test, a_buffer_too_small_is_not_used) {
  alignas(16) std::byte buffer[64];
  for (std::size_t bytes = 0; bytes <= sizeof buffer; ++bytes) {
    arena a(buffer, bytes);
    // The arena keeps 16 bytes of the buffer for itself.
    EXPECT_EQ(a.bytes_reserved(), bytes < 16 ? 0 : bytes);
    const std::size_t fitting = bytes < 16 ? 0 : (bytes - 16) / (8 + detail::redzone);
    for (std::size_t i = 0; i < 8; ++i) {
      auto* const piece = static_cast<std::byte*>(a.allocate(8, 8));
      EXPECT_EQ(piece >= buffer && piece < buffer + bytes, i < fitting) << bytes << " bytes, piece " << i;
      std::memset(piece, static_cast<int>(i), 8);
    }
  }
}

TEST(arena_rewind_test, moves_with_its_memory) {
  std::vector<int> ends;
  alignas(16) std::byte buffer[256];
  arena to;
  (void)to.create<noted>(ends, 1);
  {
    arena from(buffer, sizeof buffer);
    (void)from.create<noted>(ends, 2);
    const stamped_piece piece(from.allocate(10'000), 10'000, 3);
    const arena::marker mark = from.mark();
    (void)from.create<noted>(ends, 3);
    arena middle(std::move(from));
    to = std::move(middle);
    EXPECT_EQ(ends, (std::vector<int>{1}));
    to.rewind(mark);
    EXPECT_EQ(ends, (std::vector<int>{1, 3}));
    EXPECT_TRUE(piece.intact());
    // NOLINTNEXTLINE(bugprone-use-after-move): a moved-from arena is as good as a new one
    std::memset(from.allocate(100), 4, 100);
    EXPECT_EQ(to.bytes_used() > 10'000, true);
  }
  EXPECT_EQ(ends, (std::vector<int>{1, 3}));
  to.release();
  EXPECT_EQ(ends, (std::vector<int>{1, 3, 2}));
}

}  // namespace
}  // namespace tarn
