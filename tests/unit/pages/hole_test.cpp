// SPDX-License-Identifier: MIT
#include "pages/hole.hpp"

#include <gtest/gtest.h>

#include "os/guarded_memory.hpp"

namespace tarn {
namespace {

constexpr std::uintptr_t heap_base = std::uintptr_t{1} << 40;
constexpr std::size_t guard = os::guard_bytes;

// Of a free span between two addresses in MiB behind `heap_base`, with guards at these sides.
hole hole_between(std::size_t from, std::size_t to, std::uint8_t guarded_sides = 0) {
  span s;
  s.start = heap_base + from * mib;
  s.pages = static_cast<std::uint32_t>((to - from) * mib >> page_shift);
  s.guarded_sides = guarded_sides;
  return hole_in(&s);
}

TEST(hole, all_of_a_reservation_goes_with_its_guards) {
  for (const std::size_t to : {32, 33, 3, 1}) {
    const hole h = hole_between(0, to, guard_before | guard_behind);
    EXPECT_EQ(h.start, heap_base);
    EXPECT_EQ(h.end, heap_base + to * mib);
    EXPECT_EQ(h.unmapped_start, heap_base - guard);
    EXPECT_EQ(h.unmapped_end, heap_base + to * mib + guard);
  }
}

TEST(hole, a_part_without_a_whole_huge_page_stays) {
  EXPECT_EQ(hole_between(0, 1, guard_before).bytes(), 0U);
  EXPECT_EQ(hole_between(1, 3, guard_behind).bytes(), 0U);
  EXPECT_EQ(hole_between(1, 3).bytes(), 0U);
  EXPECT_EQ(hole_between(1, 4).bytes(), 2 * mib);
}

TEST(hole, a_middle_leaves_two_guards) {
  const hole h = hole_between(7, 21);
  EXPECT_EQ(h.start, heap_base + 8 * mib) << "a whole huge page of memory beside it";
  EXPECT_EQ(h.end, heap_base + 20 * mib);
  EXPECT_EQ(h.unmapped_start, h.start + guard);
  EXPECT_EQ(h.unmapped_end, h.end - guard);
}

TEST(hole, an_end_leaves_one_guard) {
  const hole low = hole_between(1, 9, guard_before);
  EXPECT_EQ(low.start, heap_base + 1 * mib);
  EXPECT_EQ(low.unmapped_start, low.start - guard);
  EXPECT_EQ(low.end, heap_base + 8 * mib);
  EXPECT_EQ(low.unmapped_end, low.end - guard);

  const hole high = hole_between(23, 31, guard_behind);
  EXPECT_EQ(high.start, heap_base + 24 * mib);
  EXPECT_EQ(high.unmapped_start, high.start + guard);
  EXPECT_EQ(high.end, heap_base + 31 * mib);
  EXPECT_EQ(high.unmapped_end, high.end + guard);
}

}  // namespace
}  // namespace tarn
