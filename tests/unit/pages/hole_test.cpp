// SPDX-License-Identifier: MIT
#include "pages/hole.hpp"

#include <gtest/gtest.h>

#include "os/guarded_memory.hpp"

namespace tarn {
namespace {

constexpr std::uintptr_t heap_base = std::uintptr_t{1} << 40;
constexpr std::size_t guard = os::guard_bytes;

// Of a free span between two addresses in MiB behind `heap_base`, with these borders.
hole hole_between(std::size_t from, std::size_t to, std::uint8_t borders = 0) {
  span s;
  s.start = heap_base + from * mib;
  s.pages = static_cast<std::uint32_t>((to - from) * mib >> page_shift);
  s.borders = borders;
  return hole_in(&s);
}

TEST(hole, all_of_a_reservation_goes_with_its_guards) {
  for (const std::size_t to : {32, 33, 3, 1}) {
    const hole h = hole_between(0, to, all_before | all_behind);
    EXPECT_EQ(h.start, heap_base);
    EXPECT_EQ(h.end, heap_base + to * mib);
    EXPECT_EQ(h.unmapped_start, heap_base - guard);
    EXPECT_EQ(h.unmapped_end, heap_base + to * mib + guard);
  }
}

TEST(hole, a_part_without_a_whole_huge_page_stays) {
  EXPECT_EQ(hole_between(0, 1, all_before).bytes(), 0U);
  EXPECT_EQ(hole_between(1, 3, all_behind).bytes(), 0U);
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
  const hole low = hole_between(1, 9, all_before);
  EXPECT_EQ(low.start, heap_base + 1 * mib);
  EXPECT_EQ(low.unmapped_start, low.start - guard);
  EXPECT_EQ(low.end, heap_base + 8 * mib);
  EXPECT_EQ(low.unmapped_end, low.end - guard);

  const hole high = hole_between(23, 31, all_behind);
  EXPECT_EQ(high.start, heap_base + 24 * mib);
  EXPECT_EQ(high.unmapped_start, high.start + guard);
  EXPECT_EQ(high.end, heap_base + 31 * mib);
  EXPECT_EQ(high.unmapped_end, high.end + guard);
}

TEST(hole, at_a_border_without_a_guard_nothing_beside_it_goes) {
  const hole all = hole_between(1, 2, border_before | border_behind);
  EXPECT_EQ(all.bytes(), 1 * mib);
  EXPECT_EQ(all.unmapped_start, all.start);
  EXPECT_EQ(all.unmapped_end, all.end);

  const hole low = hole_between(1, 9, border_before);
  EXPECT_EQ(low.start, heap_base + 1 * mib);
  EXPECT_EQ(low.unmapped_start, low.start);
  EXPECT_EQ(low.end, heap_base + 8 * mib);
  EXPECT_EQ(low.unmapped_end, low.end - guard);
}

}  // namespace
}  // namespace tarn
