// SPDX-License-Identifier: MIT
// slot_layout: from an address to its slot, for small and huge slots.
#include "fronts/pools/slot_layout.hpp"

#include <gtest/gtest.h>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

TEST(slot_layout, finds_every_slot_of_a_span_also_of_huge_ones) {
  constexpr std::size_t gib = std::size_t{1} << 30;
  for (const std::size_t size :
       {std::size_t{24}, 4 * kib + 8, 64 * mib - 8, 65 * mib + 8, gib / 3 * 2 + 8, gib - 8, gib}) {
    for (const bool huge : {false, true}) {
      const slot_layout layout(size, 8);
      span s;
      s.start = 64 * kib;
      const std::size_t pages = layout.span_pages(std::size_t{1} << 40, slot_layout::most_objects, huge);
      const std::size_t slots = layout.slots_in(pages, huge);
      ASSERT_GE(slots, 1U) << size;
      ASSERT_LE(slots * layout.size, pages << page_shift) << size;
      for (const std::size_t index : {std::size_t{0}, slots / 2, slots - 1}) {
        for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, size / 2, size - 1}) {
          const auto found = layout.find(&s, s.start + index * layout.size + offset);
          EXPECT_EQ(found.index, index) << size << " bytes, slot " << index << ", offset " << offset;
          EXPECT_EQ(found.is_exact, offset == 0) << size << " bytes, slot " << index << ", offset " << offset;
        }
      }
    }
  }
}

TEST(slot_layout, finds_a_broken_invariant) {
  for (const std::size_t size : {4, 24, 64, 4104, 1 << 30}) slot_layout(size, 4).validate();
  slot_layout layout(24, 8);
  layout.size = 20;
  EXPECT_BROKEN(layout.validate(), "slot_layout", "size >= least_size && size % alignment == 0", &layout);
  layout.size = 32;
  EXPECT_BROKEN(layout.validate(), "slot_layout",
                "product >> 64 == 1 && static_cast<std::uint64_t>(product) < size", &layout);
}

}  // namespace
}  // namespace tarn
