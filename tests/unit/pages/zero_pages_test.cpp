// SPDX-License-Identifier: MIT
#include "pages/zero_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

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

}  // namespace
}  // namespace tarn
