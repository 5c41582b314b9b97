// SPDX-License-Identifier: MIT
// page_heap: taking, splitting, joining and growing spans, and its invariants.
#include "pages/page_heap.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../../system_probes.hpp"
#include "broken_invariant.hpp"
#include "page_heap_fixture.hpp"

namespace tarn {

class page_heap_test_access {
 public:
  static std::size_t& free_pages(page_heap& heap) { return heap.free_pages_; }
  static std::size_t& reserved(page_heap& heap) { return heap.reserved_; }
  static std::atomic<std::size_t>& free_dirty(page_heap& heap) { return heap.free_dirty_; }
};

namespace {

using access = page_heap_test_access;

class page_heap_test : public page_heap_fixture {};

TEST_F(page_heap_test, a_span_is_what_was_asked_for) {
  span* const s = take(3);
  EXPECT_EQ(s->pages, 3U);
  EXPECT_EQ(s->state.load(), span_state::large);
  EXPECT_EQ(map_.span_of(s->start), s);
  EXPECT_EQ(map_.span_of(s->end() - 1), s);
  EXPECT_EQ(heap_.stats().in_use, 3 * page_size);
  fill(s, 1);
  heap_.deallocate(s);
  EXPECT_EQ(heap_.stats().in_use, 0U);
  check();
}

TEST_F(page_heap_test, sparse_spans_are_taken_from_the_other_end_of_fresh_memory) {
  span* const dense = take(8);
  span* const sparse = take(8, 1, source::any, use::sparse);
  span* const next_dense = take(8);
  span* const next_sparse = take(8, 1, source::any, use::sparse);
  EXPECT_EQ(next_dense->start, dense->end());
  EXPECT_EQ(next_sparse->end(), sparse->start);
  EXPECT_EQ(sparse->end(), dense->start + heap_.stats().reserved);
  for (span* s : {dense, sparse, next_dense, next_sparse}) heap_.deallocate(s);
  check();
  expect_all_in_one();
}

TEST_F(page_heap_test, dense_spans_in_place_of_sparse_ones_do_not_end_the_preparation_of_fresh_memory) {
  span* const dense = take(2 * first_touch::populate_from >> page_shift);
  span* const sparse = take(32, 1, source::any, use::sparse);
  heap_.deallocate(sparse);
  span* const in_its_place = take(32);
  EXPECT_GT(in_its_place->start, dense->end()) << "the test shows nothing";
  const std::size_t before = engine_->touch.populated();
  if (before == 0) GTEST_SKIP() << "the system prepares no memory";
  span* const next = take(32);
  EXPECT_EQ(next->start, dense->end());
  EXPECT_GT(engine_->touch.populated(), before);
  for (span* s : {dense, in_its_place, next}) heap_.deallocate(s);
  check();
}

TEST_F(page_heap_test, spans_of_a_length_that_the_program_fills_are_taken_as_dense) {
  span* const dense = take(8);
  std::vector<span*> samples;
  for (unsigned i = 0; i < fill_evidence::first_streak; ++i) {
    samples.push_back(take(32, 1, source::any, use::filled));
    EXPECT_GT(samples.back()->start, dense->end()) << "nothing is known yet";
    fill(samples.back(), 1);
  }
  span* const foreseen = take(32, 1, source::any, use::filled);
  EXPECT_EQ(foreseen->start, dense->end());
  span* const next_sample = take(32, 1, source::any, use::filled);
  EXPECT_EQ(next_sample->end(), samples.back()->start);
  span* const sparse = take(32, 1, source::any, use::filled);
  EXPECT_EQ(sparse->end(), next_sample->start) << "the last sample was not filled";
  for (span* s : {dense, foreseen, next_sample, sparse}) heap_.deallocate(s);
  for (span* s : samples) heap_.deallocate(s);
  check();
  expect_all_in_one();
}

TEST_F(page_heap_test, alignment_in_pages) {
  std::vector<span*> spans;
  for (std::size_t alignment = 1; alignment <= 1024; alignment *= 2) {
    for (const std::size_t pages : {1U, 3U, 17U}) {
      span* const s = take(pages, alignment);
      EXPECT_EQ(s->start % (alignment << page_shift), 0U) << alignment;
      EXPECT_EQ(s->pages, pages);
      spans.push_back(s);
      check();
    }
  }
  for (span* s : spans) heap_.deallocate(s);
  check();
}

TEST_F(page_heap_test, neighbours_become_one_in_any_order) {
  std::vector<span*> spans;
  for (int i = 0; i < 9; ++i) spans.push_back(take(7));
  for (const std::size_t i : {4U, 0U, 8U, 2U, 6U, 1U, 7U, 5U, 3U}) {
    heap_.deallocate(spans[i]);
    check();
  }
  expect_all_in_one();
}

TEST_F(page_heap_test, a_span_grows_into_free_pages_only) {
  span* const s = take(4);
  span* const after = take(4);
  ASSERT_EQ(after->start, s->end());
  EXPECT_FALSE(heap_.extend(s, 5));
  heap_.deallocate(after);
  EXPECT_TRUE(heap_.extend(s, 6));
  EXPECT_EQ(s->pages, 6U);
  EXPECT_EQ(map_.span_of(s->end() - 1), s);
  check();
  EXPECT_FALSE(heap_.extend(s, std::size_t{1} << 30)) << "extended over pages that are not free";
  EXPECT_EQ(s->pages, 6U);
  heap_.deallocate(s);
  expect_all_in_one();
}

TEST_F(page_heap_test, a_span_takes_up_all_that_is_free_behind_it) {
  span* const s = take(4);
  const std::size_t all = heap_.stats().reserved >> page_shift;
  ASSERT_TRUE(heap_.extend(s, all));
  EXPECT_EQ(heap_.stats().free_clean, 0U);
  check();
  heap_.deallocate(s);
  check();
}

TEST_F(page_heap_test, a_span_is_cut_and_the_rest_is_free) {
  span* const s = take(20);
  fill(s, 9);
  ASSERT_TRUE(heap_.shrink(s, 5));
  EXPECT_EQ(s->pages, 5U);
  EXPECT_EQ(map_.span_of(s->end() - 1), s);
  EXPECT_EQ(heap_.stats().in_use, 5 * page_size);
  EXPECT_EQ(heap_.dirty_bytes(), 15 * page_size);
  EXPECT_EQ(byte_at(s->end() - 1), 9);
  check();
}

// The count is what note_backed() goes by.
TEST_F(page_heap_test, a_span_that_was_cut_and_grows_again_knows_its_clean_pages) {
  span* const before = take(20);
  fill(before, 9);
  heap_.deallocate(before);
  span* const s = take(20);
  ASSERT_EQ(s->dirty_pages, 20U);
  ASSERT_TRUE(heap_.shrink(s, 5));
  EXPECT_EQ(s->dirty_pages, 5U);
  heap_.trim(0);
  ASSERT_TRUE(heap_.extend(s, 20));
  EXPECT_EQ(s->dirty_pages, 5U);
  heap_.note_backed(s);
  EXPECT_EQ(map_.count_dirty(s->start, s->pages), 20U);
  heap_.deallocate(s);
  check();
}

TEST_F(page_heap_test, a_span_in_use_is_cut_in_two) {
  span* const s = take(30);
  const std::uintptr_t start = s->start;
  s->owner.store(&heap_);
  fill(s, 7);
  span* const rest = heap_.split(s, 10);
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(s->pages, 10U);
  EXPECT_EQ(rest->pages, 20U);
  EXPECT_EQ(rest->start, s->end());
  EXPECT_EQ(rest->state.load(), span_state::large);
  EXPECT_EQ(rest->owner.load(), &heap_);
  for (const span* part : {s, rest}) {
    EXPECT_EQ(map_.span_of(part->start), part);
    EXPECT_EQ(map_.span_of(part->end() - 1), part);
    EXPECT_EQ(byte_at(part->start), 7);
    EXPECT_EQ(byte_at(part->end() - 1), 7);
  }
  EXPECT_EQ(heap_.stats().in_use, 30 * page_size);
  heap_.deallocate(s);
  check();
  EXPECT_EQ(heap_.dirty_bytes(), 10 * page_size);
  heap_.deallocate(rest);
  check();
  span* const again = take(30, 1, source::warm);
  EXPECT_EQ(again->start, start);
  // All pages of a warm span are backed, and both parts of it must know so.
  span* const second = heap_.split(again, 29);
  EXPECT_EQ(again->dirty_pages, 29U);
  EXPECT_EQ(second->dirty_pages, 1U);
  heap_.deallocate(again, page_backing::clean);
  heap_.deallocate(second);
  check();
  EXPECT_EQ(heap_.dirty_bytes(), page_size);
}

TEST_F(page_heap_test, finds_a_broken_invariant) {
  span* const s = take(4);
  span* const next = take(1);
  heap_.deallocate(s);
  heap_.validate();
  map_.set_backing(s->start, 1, page_backing::clean);
  EXPECT_BROKEN(heap_.validate(), "page_heap", "s->dirty_pages == map_.count_dirty(s->start, s->pages)",
                &heap_);
  map_.set_backing(s->start, 1, page_backing::young);
  map_.set_span(s->end() - 1, next);
  EXPECT_BROKEN(heap_.validate(), "page_heap",
                "map_.span_of(s->start) == s && map_.span_of(s->end() - 1) == s", &heap_);
  map_.set_span(s->end() - 1, s);
  map_.set_span(next->start, nullptr);
  EXPECT_BROKEN(heap_.validate(), "page_heap", "neighbour != nullptr || has_border || is_unmapping", &heap_);
  map_.set_ends(next);
  s->borders |= guard_behind;
  EXPECT_BROKEN(heap_.validate(), "page_heap", "neighbour == nullptr || !s->has_border(guard)", &heap_);
  s->borders = border_before | guard_before;
  next->state.store(span_state::free);
  EXPECT_BROKEN(heap_.validate(), "page_heap", "!is_after_free || !may_join(s, after)", &heap_);
  next->state.store(span_state::large);
  heap_.validate();
  const auto expect_off = [&](std::size_t& sum, const char* equation) {
    ++sum;
    EXPECT_TARN_ABORT(heap_.validate(),
                      testing_support::literally("broken invariant of page_heap: " + std::string(equation)),
                      &heap_);
    --sum;
  };
  expect_off(access::free_pages(heap_), "free_pages_ == free_sum");
  expect_off(access::reserved(heap_), "in_use + free_pages_ + transit_.pages() == reserved_");
  access::free_dirty(heap_)++;
  EXPECT_BROKEN(heap_.validate(), "page_heap", "free_dirty == dirty_sum", &heap_);
}

TEST_F(page_heap_test, of_huge_pages_that_are_asked_for_together_the_second_one_is_touched) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  engine_->touch.set_mode(huge_pages::always);  // however slow they are here
  while (heap_.in_use_bytes() < first_touch::touch_ahead_from) take(mib >> page_shift);
  int touched = 0;
  while (heap_.in_use_bytes() < 2 * first_touch::touch_ahead_from && touched == 0) {
    const span* const s = take(mib >> page_shift);
    if (fill_evidence::is_filled(align_up(s->end(), huge_page_size), huge_page_size)) ++touched;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!engine_->touch.may_have_huge()) GTEST_SKIP() << "this system makes no huge pages on request";
  EXPECT_GT(touched, 0);
  // The program does not come there, so it goes back.
  const auto is_backed = [](const span* s) {
    return fill_evidence::is_filled(align_up(s->end(), huge_page_size), huge_page_size);
  };
  const span* last = nullptr;
  do last = take(mib >> page_shift);
  while (!is_backed(last) && heap_.in_use_bytes() < 3 * first_touch::touch_ahead_from);
  heap_.age();
  EXPECT_TRUE(is_backed(last)) << "it goes back although the program has just grown";
  heap_.age();
  EXPECT_FALSE(is_backed(last));
  check();
}

}  // namespace
}  // namespace tarn
