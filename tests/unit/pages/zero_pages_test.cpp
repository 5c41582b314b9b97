// SPDX-License-Identifier: MIT
// zero_dirty_pages: zeroes pages that were used, and touches no others.
#include "pages/zero_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "os/memory.hpp"
#include "own_engine.hpp"

namespace tarn {
namespace {

using use = page_heap::use;
using source = page_heap::source;

TEST(zero_pages, pages_that_were_never_used_are_not_touched) {
  auto const engine = testing_support::make_engine();
  span* const s = engine->heap.allocate(100, 1, span_state::large, source::any, use::sparse);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(zero_dirty_pages(engine->map, s), 0U);
}

TEST(zero_pages, used_pages_are_zeroed) {
  auto const engine = testing_support::make_engine();
  // Two used parts with a fresh one between them.
  span* const whole = engine->heap.allocate(30, 1, span_state::large, source::any, use::sparse);
  ASSERT_NE(whole, nullptr);
  std::memset(reinterpret_cast<void*>(whole->start), 1, 10 * page_size);
  std::memset(reinterpret_cast<void*>(whole->start + 20 * page_size), 1, 10 * page_size);
  const std::uintptr_t start = whole->start;
  span* const middle = engine->heap.split(whole, 10);
  span* const last = engine->heap.split(middle, 10);
  ASSERT_NE(last, nullptr);
  engine->heap.deallocate(whole);
  engine->heap.deallocate(middle, page_backing::clean);
  engine->heap.deallocate(last);
  span* const again = engine->heap.allocate(30, 1, span_state::large, source::any, use::sparse);
  ASSERT_EQ(again->start, start);
  EXPECT_EQ(zero_dirty_pages(engine->map, again), 20 * page_size);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(again->start);
  EXPECT_TRUE(std::all_of(bytes, bytes + again->bytes(), [](unsigned char b) { return b == 0; }));
}

// All of a freed block counts as backed, though here only a few of its pages were written.
TEST(zero_pages, pages_of_a_long_block_that_nobody_touched_stay_untouched) {
  auto const engine = testing_support::make_engine();
  constexpr std::size_t pages = 8 * mib >> page_shift;
  span* const s = engine->heap.allocate(pages, 1, span_state::large, source::any, use::sparse);
  ASSERT_NE(s, nullptr);
  os::advise_no_huge(reinterpret_cast<void*>(s->start), s->bytes());
  for (std::size_t place = 0; place < s->bytes(); place += mib) {
    *reinterpret_cast<unsigned char*>(s->start + place) = 1;
  }
  engine->heap.deallocate(s);
  span* const again = engine->heap.allocate(pages, 1, span_state::large, source::warm, use::sparse);
  ASSERT_NE(again, nullptr);
  ASSERT_NE(again->dirty_pages, 0U);
  EXPECT_EQ(zero_dirty_pages(engine->map, again), 0U) << "written instead of dropped";
  std::vector<unsigned char> resident(again->bytes() / os::system_page_size());
  ASSERT_TRUE(os::find_resident(reinterpret_cast<void*>(again->start), again->bytes(), resident.data()));
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char r) { return (r & 1) != 0; }), 0);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(again->start);
  EXPECT_TRUE(std::all_of(bytes, bytes + again->bytes(), [](unsigned char b) { return b == 0; }));
}

TEST(zero_pages, of_a_long_block_that_was_mostly_written_those_pages_are_zeroed) {
  auto const engine = testing_support::make_engine();
  constexpr std::size_t pages = 4 * mib >> page_shift;
  span* const s = engine->heap.allocate(pages, 1, span_state::large, source::any, use::sparse);
  ASSERT_NE(s, nullptr);
  os::advise_no_huge(reinterpret_cast<void*>(s->start), s->bytes());
  std::memset(reinterpret_cast<void*>(s->start), 1, 3 * mib);
  engine->heap.deallocate(s);
  span* const again = engine->heap.allocate(pages, 1, span_state::large, source::warm, use::sparse);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(zero_dirty_pages(engine->map, again), 3 * mib);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(again->start);
  EXPECT_TRUE(std::all_of(bytes, bytes + again->bytes(), [](unsigned char b) { return b == 0; }));
}

}  // namespace
}  // namespace tarn
