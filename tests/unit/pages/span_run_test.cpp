// SPDX-License-Identifier: MIT
// span_run: neighbours become one span, and each page leads to it again; its invariants.
#include "pages/span_run.hpp"

#include <gtest/gtest.h>

#include "broken_invariant.hpp"
#include "page_heap_fixture.hpp"

namespace tarn {

class span_run_test_access {
 public:
  static std::size_t& other_count(span_run& run) { return run.other_count_; }
  static std::uintptr_t& end(span_run& run) { return run.end_; }
  static span*& tail(span_run& run) { return run.tail_; }
};

namespace {

class span_run_test : public page_heap_fixture {
 protected:
  static std::uintptr_t run_end(span_run& run) { return span_run_test_access::end(run); }
  static constexpr std::size_t pages_of_2_mib = 2 * mib >> page_shift;
  // Neighbours of these lengths.
  template <std::size_t N>
  void cut(const std::size_t (&pages)[N], span* (&out)[N]) {
    std::size_t all = 0;
    for (const std::size_t p : pages) all += p;
    out[0] = take(all);
    ASSERT_NE(out[0], nullptr);
    fill(out[0], 7);
    for (std::size_t i = 1; i < N; ++i) {
      out[i] = heap_.split(out[i - 1], pages[i - 1]);
      ASSERT_NE(out[i], nullptr);
    }
  }
};

TEST_F(span_run_test, an_empty_run_is_no_span) {
  const span_run run;
  EXPECT_TRUE(run.empty());
  run.validate();
  EXPECT_EQ(heap_.join(run), nullptr);
}

TEST_F(span_run_test, one_span_stays_as_it_is) {
  span* const s = take(3);
  span_run run;
  EXPECT_TRUE(run.continues_at(s));
  run.add(s);
  run.validate();
  EXPECT_EQ(heap_.join(run), s);
  EXPECT_EQ(s->pages, 3U);
  heap_.deallocate(s);
  check();
}

TEST_F(span_run_test, neighbours_become_one) {
  constexpr std::size_t pages[] = {2, 1, 30, 4};
  span* parts[4];
  cut(pages, parts);
  const std::uintptr_t start = parts[0]->start;
  const std::uintptr_t end = parts[3]->end();
  span_run run;
  for (span* const s : parts) {
    EXPECT_TRUE(run.continues_at(s));
    run.add(s);
    run.validate();
  }
  span* const joined = heap_.join(run);
  ASSERT_EQ(joined, parts[0]);
  for (const span* const s : {parts[1], parts[2], parts[3]}) EXPECT_TRUE(s->is_retired());
  EXPECT_EQ(joined->start, start);
  EXPECT_EQ(joined->end(), end);
  EXPECT_EQ(map_.span_of(start), joined);
  EXPECT_EQ(map_.span_of(end - 1), joined);
  EXPECT_EQ(byte_at(end - 1), 7);
  check();  // counts the structures at hand, too
  heap_.deallocate(joined);
  EXPECT_EQ(heap_.dirty_bytes(), 37 * page_size);
  check();
  expect_all_in_one();
}

TEST_F(span_run_test, a_gap_ends_it) {
  constexpr std::size_t pages[] = {2, 2, 2};
  span* parts[3];
  cut(pages, parts);
  span_run run;
  run.add(parts[0]);
  EXPECT_FALSE(run.continues_at(parts[2]));
  EXPECT_TRUE(run.continues_at(parts[1]));
  for (span* const s : parts) heap_.deallocate(s);
  check();
}

// While the run is collected, the heap may change the borders of its ends.
TEST_F(span_run_test, a_reservation_that_becomes_longer_behind_it_has_no_border_there) {
  span* last = take(pages_of_2_mib);
  ASSERT_NE(last, nullptr);
  while (!last->has_border(border_behind)) {
    last = take(pages_of_2_mib);
    ASSERT_NE(last, nullptr);
  }
  span* const rest = heap_.split(last, 3);
  span_run run;
  run.add(last);
  run.add(rest);
  span* const behind = take(pages_of_2_mib);
  ASSERT_NE(behind, nullptr);
  if (behind->start != run_end(run)) GTEST_SKIP() << "the address space behind the reservation is taken";
  fill(behind, 7);
  span* const joined = heap_.join(run);
  EXPECT_FALSE(joined->has_border(border_behind));
  EXPECT_FALSE(joined->has_border(guard_behind));
  heap_.deallocate(joined);
  check();
  heap_.unmap_free(2 * mib);
  EXPECT_EQ(byte_at(behind->start), 7);
  check();
}

TEST_F(span_run_test, memory_behind_it_that_is_unmapped_leaves_a_border) {
  span* const before = take(pages_of_2_mib, pages_of_2_mib);
  span* const behind = take(pages_of_2_mib, pages_of_2_mib);
  ASSERT_NE(behind, nullptr);
  ASSERT_EQ(before->end(), behind->start);
  span* const rest = heap_.split(before, 3);
  span_run run;
  run.add(before);
  run.add(rest);
  heap_.deallocate(behind);
  ASSERT_NE(heap_.unmap_free(2 * mib), 0U);
  span* const joined = heap_.join(run);
  EXPECT_TRUE(joined->has_border(border_behind));
  heap_.deallocate(joined);
  check();
}

TEST_F(span_run_test, broken_invariants_are_found) {
  constexpr std::size_t pages[] = {1, 1, 1};
  span* parts[3];
  cut(pages, parts);
  span_run run;
  for (span* const s : parts) run.add(s);
  ++span_run_test_access::other_count(run);
  EXPECT_BROKEN(run.validate(), "span_run", "count == other_count_", &run);
  --span_run_test_access::other_count(run);
  span_run_test_access::tail(run) = nullptr;
  EXPECT_BROKEN(run.validate(), "span_run", "tail == tail_", &run);
  span_run_test_access::tail(run) = parts[1];
  parts[1]->state.store(span_state::purging);
  EXPECT_BROKEN(run.validate(), "span_run", "s->is_retired() == (s != others_)", &run);
  parts[1]->retire();
  span_run_test_access::end(run) += page_size;
  EXPECT_BROKEN(run.validate(), "span_run", "first_ == nullptr || first_->start + bytes() == end_", &run);
  span_run_test_access::end(run) -= page_size;
  heap_.deallocate(heap_.join(run));
  check();
}

}  // namespace
}  // namespace tarn
