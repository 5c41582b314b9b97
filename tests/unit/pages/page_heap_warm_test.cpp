// SPDX-License-Identifier: MIT
// page_heap: requests for warm or backed pages, and which free span serves a request.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/units.hpp"
#include "page_heap_fixture.hpp"

namespace tarn {
namespace {

class page_heap_warm_test : public page_heap_fixture {};

TEST_F(page_heap_warm_test, warm_only_takes_nothing_fresh) {
  EXPECT_EQ(try_take(4, 1, source::warm), nullptr);
  EXPECT_EQ(heap_.stats().reserved, 0U);
  span* const s = take(4);
  const std::uintptr_t start = s->start;
  EXPECT_EQ(try_take(4, 1, source::warm), nullptr);
  heap_.deallocate(s);
  span* const again = take(4, 1, source::warm);
  EXPECT_EQ(again->start, start);
}

TEST_F(page_heap_warm_test, warm_memory_goes_before_clean_memory) {
  span* const cold = take(6);
  take(1);
  span* const warm = take(40);
  take(1);
  const std::uintptr_t start = warm->start;
  heap_.deallocate(cold, page_backing::clean);
  heap_.deallocate(warm, page_backing::young);
  EXPECT_EQ(take(5)->start, start) << "the closer fit was taken, which is not backed";
  check();
}

// A few used pages next to a long untouched range are one free span with it.
TEST_F(page_heap_warm_test, a_long_fresh_span_with_a_few_warm_pages_is_not_warm) {
  span* const s = take(8);
  fill(s, 1);
  const std::uintptr_t start = s->start;
  heap_.deallocate(s);
  EXPECT_EQ(try_take(64, 1, source::warm), nullptr);
  EXPECT_EQ(try_take(17, 1, source::warm), nullptr);
  span* const first_half = take(16, 1, source::warm);
  EXPECT_EQ(first_half->start, start);
  heap_.deallocate(first_half, page_backing::clean);
  check();
}

TEST_F(page_heap_warm_test, a_span_with_one_page_that_is_not_backed_is_warm_but_not_backed) {
  span* const s = take(8);
  fill(s, 1);
  heap_.deallocate(s);
  EXPECT_EQ(try_take(9, 1, source::backed), nullptr);
  span* const backed = take(8, 1, source::backed);
  EXPECT_EQ(backed->dirty_pages, 8U);
  heap_.deallocate(backed);
  EXPECT_NE(try_take(9, 1, source::warm), nullptr);
  check();
}

TEST_F(page_heap_warm_test, warm_pages_are_found_wherever_they_are_in_a_free_span) {
  span* const front = take(300);
  span* const middle = take(8);
  span* const behind = take(300);
  const std::uintptr_t start = middle->start;
  fill(middle, 1);
  heap_.deallocate(front, page_backing::clean);
  heap_.deallocate(behind, page_backing::clean);
  heap_.deallocate(middle);
  check();
  span* const warm = take(8, 1, source::warm);
  EXPECT_EQ(warm->start, start);
  EXPECT_EQ(byte_at(start), 1);
  check();
  heap_.deallocate(warm);
}

TEST_F(page_heap_warm_test, a_long_run_of_warm_pages_is_found_behind_a_short_one) {
  span* const short_run = take(14);
  span* const between = take(300);
  span* const long_run = take(100);
  const std::uintptr_t start = long_run->start;
  heap_.deallocate(short_run);
  heap_.deallocate(between, page_backing::clean);
  heap_.deallocate(long_run);
  span* const warm = take(100, 1, source::warm);
  EXPECT_EQ(warm->start, start);
  heap_.deallocate(warm);
  check();
}

TEST_F(page_heap_warm_test, a_longer_warm_span_is_found_behind_a_closer_fit_that_is_not_backed) {
  span* const few = take(2);
  span* const cold = take(118);
  span* const border = take(1);
  span* const long_run = take(200);
  span* const end = take(1);
  const std::uintptr_t start = long_run->start;
  heap_.deallocate(few);
  heap_.deallocate(cold, page_backing::clean);
  heap_.deallocate(long_run);
  span* const warm = take(110, 1, source::warm);
  EXPECT_EQ(warm->start, start);
  for (span* s : {warm, border, end}) heap_.deallocate(s);
  check();
}

TEST_F(page_heap_warm_test, a_roomy_place_is_warm_and_twice_as_long) {
  span* const short_run = take(19);
  span* const border = take(1);
  span* const long_run = take(20);
  span* const end = take(1);
  const std::uintptr_t start = long_run->start;
  heap_.deallocate(short_run);
  EXPECT_EQ(try_take(10, 1, source::roomy), nullptr);
  heap_.deallocate(long_run);
  span* const s = take(10, 1, source::roomy);
  EXPECT_EQ(s->start, start);
  EXPECT_EQ(s->pages, 10U);
  EXPECT_TRUE(heap_.extend(s, 20));
  for (span* used : {s, border, end}) heap_.deallocate(used);
  check();
}

// Spans too short for mappings of their own, of 96 MiB together: when they are freed they become one long span.
std::vector<span*> fill_reservation(page_heap& heap) {
  std::vector<span*> spans;
  for (int i = 0; i < 48; ++i) {
    spans.push_back(heap.allocate(2 * mib >> page_shift, 1, span_state::large, source::any, use::dense));
  }
  return spans;
}

// If the two became one span, a search for its backed pages would have to visit all of the others.
TEST_F(page_heap_warm_test, a_short_backed_span_stays_apart_from_a_long_clean_one) {
  const std::vector<span*> spans = fill_reservation(heap_);
  if (!are_neighbours(spans)) GTEST_SKIP() << "this build's reservations are too short";
  for (span* const s : spans) heap_.deallocate(s, page_backing::clean);
  span* const s = take(75);
  const std::uintptr_t start = s->start;
  heap_.deallocate(s);
  check();
  EXPECT_EQ(heap_.dirty_bytes(), 75 * page_size);
  span* const again = take(75, 1, source::warm);
  EXPECT_EQ(again->start, start);
  heap_.deallocate(again);
  heap_.trim(0);
  check();
  expect_all_in_one();
}

TEST_F(page_heap_warm_test, backed_spans_become_one_however_long) {
  const std::vector<span*> spans = fill_reservation(heap_);
  if (!are_neighbours(spans)) GTEST_SKIP() << "this build's reservations are too short";
  for (span* const s : spans) heap_.deallocate(s);
  check();
  span* const s = take(80 * mib >> page_shift, 1, source::warm);
  span* const rest = take(75, 1, source::warm);
  heap_.deallocate(s);
  heap_.deallocate(rest);
  check();
  EXPECT_NE(try_take(90 * mib >> page_shift, 1, source::warm), nullptr);
}

}  // namespace
}  // namespace tarn
