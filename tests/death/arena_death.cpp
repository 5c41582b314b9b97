// SPDX-License-Identifier: MIT
// Misuse that arenas detect when pools are checked (TARN_CHECKED_POOLS), what these checks cost in memory, and that
// rewound memory is filled.
#define TARN_CHECKED_POOLS 1
#include <gtest/gtest.h>

#include <cstring>

#include "expect_abort.hpp"
#include "tarn/arena.hpp"

namespace tarn {
namespace {

const char* const stale_marker =
    "tarn: arena rewound to a marker that is no longer valid: 0x[0-9a-f]+\n" TARN_END_OF_OUTPUT;

TEST(arena_death, rewound_to_the_inner_marker_after_the_outer) {
  arena a;
  (void)a.allocate(100);
  const arena::marker outer = a.mark();
  (void)a.allocate(100);
  const arena::marker inner = a.mark();
  (void)a.allocate(100);
  a.rewind(outer);
  (void)a.allocate(400);
  EXPECT_EXIT(a.rewind(inner), testing::KilledBySignal(SIGABRT), stale_marker);
  a.rewind(outer);
}

TEST(arena_death, rewound_to_a_marker_from_before_a_reset) {
  arena a;
  (void)a.allocate(100);
  const arena::marker mark = a.mark();
  a.reset();
  EXPECT_EXIT(a.rewind(mark), testing::KilledBySignal(SIGABRT), stale_marker);
  const arena::marker empty = a.mark();
  a.release();
  EXPECT_EXIT(a.rewind(empty), testing::KilledBySignal(SIGABRT), stale_marker);
}

TEST(arena_death, rewound_to_another_arenas_marker) {
  arena a;
  arena b;
  const arena::marker mark = a.mark();
  (void)b.mark();
  EXPECT_EXIT(b.rewind(mark), testing::KilledBySignal(SIGABRT), stale_marker);
}

TEST(arena_death, an_alignment_that_is_no_power_of_two) {
  arena a;
  for (const std::size_t alignment : {0U, 3U, 24U, 100U}) {
    EXPECT_EXIT(
        (void)a.allocate(10, alignment), testing::KilledBySignal(SIGABRT),
        "^tarn: arena asked for an alignment that is no power of two: 0x[0-9a-f]+\n" TARN_END_OF_OUTPUT)
        << alignment;
  }
}

// A checked marker takes memory of the arena; a loop of markers must not accumulate it.
TEST(arena_death, markers_in_loops_take_no_memory_for_good) {
  arena a;
  (void)a.allocate(100);
  const arena::marker outside = a.mark();
  const std::size_t used = a.bytes_used();
  for (int i = 0; i < 10'000; ++i) {
    const arena::marker mark = a.mark();
    (void)a.allocate(100);
    const arena::marker nested = a.mark();
    (void)a.allocate(10'000);
    a.rewind(nested);
    a.rewind(mark);
    a.rewind(mark);
    a.rewind(outside);
  }
  EXPECT_LE(a.bytes_used(), used + 100);
  for (int i = 0; i < 1000; ++i) {
    const scratch_arena outer;
    (void)outer->allocate(100);
    const scratch_arena inner;
    (void)inner->allocate(100'000);
  }
}

TEST(arena_death, rewound_memory_is_filled) {
  arena a;
  const arena::marker mark = a.mark();
  auto* const memory = static_cast<unsigned char*>(a.allocate(5000));
  std::memset(memory, 0, 5000);
  a.rewind(mark);
  // The marker's own record lies elsewhere, so the whole of `memory` is filled.
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(memory[i], 0xdd);
}

}  // namespace
}  // namespace tarn
