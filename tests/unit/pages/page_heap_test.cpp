// SPDX-License-Identifier: MIT
// page_heap: taking, splitting, joining, growing, ageing and returning spans; and random steps, with its invariants
// checked after each.
#include "pages/page_heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "base/compiler.hpp"
#include "broken_invariant.hpp"
#include "os/memory.hpp"
#include "page_heap_fixture.hpp"

namespace tarn {

class page_heap_test_access {
 public:
  static std::size_t& free_pages(page_heap& heap) { return heap.free_pages_; }
  static std::size_t& purging_pages(page_heap& heap) { return heap.purging_pages_; }
  static std::size_t& reserved(page_heap& heap) { return heap.reserved_; }
  static std::size_t& spare_count(page_heap& heap) { return heap.spare_count_; }
  static std::atomic<std::size_t>& free_dirty(page_heap& heap) { return heap.free_dirty_; }
};

namespace {

using access = page_heap_test_access;

class page_heap_test : public page_heap_fixture {};

TEST_F(page_heap_test, a_span_is_what_was_asked_for) {
  span* const s = take(3);
  ASSERT_NE(s, nullptr);
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

TEST_F(page_heap_test, warm_only_takes_nothing_fresh) {
  EXPECT_EQ(take(4, 1, source::warm), nullptr);
  EXPECT_EQ(heap_.stats().reserved, 0U);
  span* const s = take(4);
  const std::uintptr_t start = s->start;
  EXPECT_EQ(take(4, 1, source::warm), nullptr);
  heap_.deallocate(s);
  span* const again = take(4, 1, source::warm);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->start, start);
}

TEST_F(page_heap_test, warm_memory_goes_before_clean_memory) {
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
TEST_F(page_heap_test, a_long_fresh_span_with_a_few_warm_pages_is_not_warm) {
  span* const s = take(8);
  fill(s, 1);
  const std::uintptr_t start = s->start;
  heap_.deallocate(s);
  EXPECT_EQ(take(64, 1, source::warm), nullptr);
  EXPECT_EQ(take(17, 1, source::warm), nullptr);
  span* const first_half = take(16, 1, source::warm);
  ASSERT_NE(first_half, nullptr);
  EXPECT_EQ(first_half->start, start);
  heap_.deallocate(first_half, page_backing::clean);
  check();
}

TEST_F(page_heap_test, a_span_with_one_page_that_is_not_backed_is_warm_but_not_backed) {
  span* const s = take(8);
  fill(s, 1);
  heap_.deallocate(s);
  EXPECT_EQ(take(9, 1, source::backed), nullptr);
  span* const backed = take(8, 1, source::backed);
  ASSERT_NE(backed, nullptr);
  EXPECT_EQ(backed->dirty_pages, 8U);
  heap_.deallocate(backed);
  EXPECT_NE(take(9, 1, source::warm), nullptr);
  check();
}

TEST_F(page_heap_test, warm_pages_are_found_wherever_they_are_in_a_free_span) {
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
  ASSERT_NE(warm, nullptr);
  EXPECT_EQ(warm->start, start);
  EXPECT_EQ(byte_at(start), 1);
  check();
  heap_.deallocate(warm);
}

TEST_F(page_heap_test, a_long_run_of_warm_pages_is_found_behind_a_short_one) {
  span* const short_run = take(14);
  span* const between = take(300);
  span* const long_run = take(100);
  const std::uintptr_t start = long_run->start;
  heap_.deallocate(short_run);
  heap_.deallocate(between, page_backing::clean);
  heap_.deallocate(long_run);
  span* const warm = take(100, 1, source::warm);
  ASSERT_NE(warm, nullptr);
  EXPECT_EQ(warm->start, start);
  heap_.deallocate(warm);
  check();
}

TEST_F(page_heap_test, a_longer_warm_span_is_found_behind_a_closer_fit_that_is_not_backed) {
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
  ASSERT_NE(warm, nullptr);
  EXPECT_EQ(warm->start, start);
  for (span* s : {warm, border, end}) heap_.deallocate(s);
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
      ASSERT_NE(s, nullptr);
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

TEST_F(page_heap_test, memory_goes_back_after_one_to_two_periods) {
  span* const s = take(16);
  const std::uintptr_t start = s->start;
  fill(s, 5);
  heap_.deallocate(s);
  EXPECT_EQ(map_.backing(start), page_backing::young);
  EXPECT_TRUE(heap_.age());
  EXPECT_EQ(map_.backing(start), page_backing::old);
  EXPECT_EQ(byte_at(start), 5) << "returned after only one period";
  EXPECT_EQ(heap_.dirty_bytes(), 16 * page_size);
  EXPECT_FALSE(heap_.age());
  EXPECT_EQ(map_.backing(start), page_backing::clean);
  EXPECT_EQ(heap_.dirty_bytes(), 0U);
  EXPECT_EQ(heap_.stats().returned, 16 * page_size);
  EXPECT_EQ(byte_at(start), 0);
  check();
}

TEST_F(page_heap_test, neighbours_that_come_and_go_do_not_keep_old_pages_backed) {
  span* const idle = take(8);
  span* busy = take(8);
  ASSERT_EQ(busy->start, idle->end());
  const std::uintptr_t idle_start = idle->start;
  const std::uintptr_t busy_start = busy->start;
  heap_.deallocate(idle);
  EXPECT_TRUE(heap_.age());
  heap_.deallocate(busy);  // one span with `idle` now
  EXPECT_TRUE(heap_.age());
  EXPECT_EQ(map_.backing(idle_start), page_backing::clean);
  EXPECT_EQ(map_.backing(busy_start), page_backing::old);
  EXPECT_EQ(heap_.dirty_bytes(), 8 * page_size);
  check();
}

TEST_F(page_heap_test, a_page_used_again_is_young_again) {
  span* s = take(8);
  heap_.deallocate(s);
  EXPECT_TRUE(heap_.age());
  s = take(8, 1, source::warm);
  ASSERT_NE(s, nullptr);
  heap_.deallocate(s);
  EXPECT_TRUE(heap_.age());
  EXPECT_EQ(heap_.dirty_bytes(), 8 * page_size) << "returned after less than a period";
  EXPECT_FALSE(heap_.age());
}

TEST_F(page_heap_test, trim_keeps_what_it_is_told_to) {
  std::vector<span*> spans;
  for (int i = 0; i < 32; ++i) spans.push_back(take(16));
  for (std::size_t i = 0; i < 32; i += 2) heap_.deallocate(spans[i]);
  EXPECT_EQ(heap_.dirty_bytes(), 256 * page_size);
  EXPECT_EQ(heap_.trim(512 * page_size), 0U);
  const std::size_t given = heap_.trim(100 * page_size);
  EXPECT_LE(heap_.dirty_bytes(), 100 * page_size);
  EXPECT_GE(heap_.dirty_bytes() + 16 * page_size, 100 * page_size) << "more was returned than needed";
  EXPECT_EQ(given, 256 * page_size - heap_.dirty_bytes());
  heap_.trim(0);
  EXPECT_EQ(heap_.dirty_bytes(), 0U);
  EXPECT_EQ(heap_.stats().returned, 256 * page_size);
  check();
}

TEST_F(page_heap_test, of_a_long_span_only_what_is_too_much_goes_back) {
  constexpr std::size_t pages = 16 * mib >> page_shift;
  heap_.deallocate(take(pages));
  heap_.trim(13 * mib);
  EXPECT_LE(heap_.dirty_bytes(), 13 * mib);
  EXPECT_GE(heap_.dirty_bytes(), 13 * mib - huge_page_size) << "a huge page is not purged in part";
  check();
}

TEST_F(page_heap_test, free_pages_beyond_the_limit_go_back_at_once) {
  heap_.set_dirty_limit(mib);
  std::vector<span*> spans;
  for (int i = 0; i < 16; ++i) spans.push_back(take(64));
  for (std::size_t i = 0; i < 16; i += 2) {
    heap_.deallocate(spans[i]);
    EXPECT_LE(heap_.dirty_bytes(), mib);
    check();
  }
  EXPECT_NE(heap_.stats().returned, 0U);
}

// Spans too short for mappings of their own, of 96 MiB together: when they are freed they become one long span.
std::vector<span*> fill_reservation(page_heap& heap) {
  std::vector<span*> spans;
  for (int i = 0; i < 48; ++i) {
    spans.push_back(heap.allocate(2 * mib >> page_shift, 1, span_state::large, source::any, use::dense));
  }
  return spans;
}

// Whether the spans fill one range. Under ThreadSanitizer they lie in several reservations.
bool are_neighbours(const std::vector<span*>& spans) {
  std::uintptr_t low = UINTPTR_MAX;
  std::uintptr_t high = 0;
  std::size_t bytes = 0;
  for (const span* const s : spans) {
    low = std::min(low, s->start);
    high = std::max(high, s->end());
    bytes += s->bytes();
  }
  return high - low == bytes;
}

// If the two became one span, a search for its backed pages would have to visit all of the others.
TEST_F(page_heap_test, a_short_backed_span_stays_apart_from_a_long_clean_one) {
  const std::vector<span*> spans = fill_reservation(heap_);
  if (!are_neighbours(spans)) GTEST_SKIP() << "this build's reservations are too short";
  for (span* const s : spans) heap_.deallocate(s, page_backing::clean);
  span* const s = take(75);
  ASSERT_NE(s, nullptr);
  const std::uintptr_t start = s->start;
  heap_.deallocate(s);
  check();
  EXPECT_EQ(heap_.dirty_bytes(), 75 * page_size);
  span* const again = take(75, 1, source::warm);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->start, start);
  heap_.deallocate(again);
  heap_.trim(0);
  check();
  expect_all_in_one();
}

TEST_F(page_heap_test, backed_spans_become_one_however_long) {
  const std::vector<span*> spans = fill_reservation(heap_);
  if (!are_neighbours(spans)) GTEST_SKIP() << "this build's reservations are too short";
  for (span* const s : spans) heap_.deallocate(s);
  check();
  span* const s = take(80 * mib >> page_shift, 1, source::warm);
  ASSERT_NE(s, nullptr);
  span* const rest = take(75, 1, source::warm);
  ASSERT_NE(rest, nullptr);
  heap_.deallocate(s);
  heap_.deallocate(rest);
  check();
  EXPECT_NE(take(90 * mib >> page_shift, 1, source::warm), nullptr);
}

// ---- random steps ----

struct stamped {
  span* s;
  unsigned char stamp;
};

class random_walk {
 public:
  random_walk(page_heap& heap, unsigned seed) : heap_(heap), random_(seed) {}

  void step() {
    switch (random_() % 16) {
      case 0:
        heap_.age();
        break;
      case 1:
        if (random_() % 8 == 0) heap_.trim((random_() % 512) << page_shift);
        break;
      case 2:
      case 3:
        resize();
        break;
      default:
        if (live_.size() < 60 || random_() % 2 == 0) take();
        if (live_.size() > 90 || random_() % 2 == 0) drop(random_() % (live_.size() + 1));
    }
  }
  void drop_all() {
    while (!live_.empty()) drop(0);
  }
  [[nodiscard]] std::size_t live_bytes() const {
    std::size_t bytes = 0;
    for (const stamped& b : live_) bytes += b.s->bytes();
    return bytes;
  }

 private:
  void mark(const stamped& b) {
    *reinterpret_cast<unsigned char*>(b.s->start) = b.stamp;
    *reinterpret_cast<unsigned char*>(b.s->end() - 1) = b.stamp;
  }
  void expect_marked(const stamped& b) {
    ASSERT_EQ(byte_at(b.s->start), b.stamp);
    ASSERT_EQ(byte_at(b.s->end() - 1), b.stamp);
  }
  void take() {
    const std::size_t pages = 1 + random_() % (random_() % 8 == 0 ? 3000 : 60);
    const std::size_t alignment = random_() % 4 == 0 ? std::size_t{1} << (random_() % 10) : 1;
    const auto from = random_() % 4 == 0 ? source::warm : source::any;
    span* const s = heap_.allocate(pages, alignment, span_state::large, from,
                                   random_() % 2 == 0 ? use::dense : use::sparse);
    if (s == nullptr) {
      ASSERT_EQ(from, source::warm);
      return;
    }
    ASSERT_EQ(s->pages, pages);
    ASSERT_EQ(s->start % (alignment << page_shift), 0U);
    for (const stamped& other : live_) {
      ASSERT_TRUE(s->end() <= other.s->start || other.s->end() <= s->start) << "handed out twice";
    }
    live_.push_back({s, static_cast<unsigned char>(random_())});
    mark(live_.back());
  }
  void drop(std::size_t i) {
    if (i >= live_.size()) return;
    expect_marked(live_[i]);
    if (random_() % 8 == 0) {
      heap_.release_to_system(live_[i].s);
    } else {
      heap_.deallocate(live_[i].s, page_backing::young);
    }
    live_[i] = live_.back();
    live_.pop_back();
  }
  void resize() {
    if (live_.empty()) return;
    stamped b = live_[random_() % live_.size()];
    expect_marked(b);
    const std::size_t before = b.s->pages;
    if (before > 1 && random_() % 2 == 0) {
      const std::size_t pages = 1 + random_() % (before - 1);
      ASSERT_TRUE(heap_.shrink(b.s, pages));
      ASSERT_EQ(b.s->pages, pages);
    } else if (before > 1 && random_() % 2 == 0) {
      const std::size_t pages = 1 + random_() % (before - 1);
      span* const rest = heap_.split(b.s, pages);
      ASSERT_NE(rest, nullptr);
      live_.push_back({rest, static_cast<unsigned char>(random_())});
      mark(live_.back());
      mark(b);
      return;
    } else {
      const std::size_t pages = before + 1 + random_() % 40;
      const bool extended = heap_.extend(b.s, pages);
      ASSERT_EQ(b.s->pages, extended ? pages : before);
    }
    mark(b);
  }

  page_heap& heap_;
  std::mt19937 random_;
  std::vector<stamped> live_;
};

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
  ASSERT_NE(again, nullptr);
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

TEST_F(page_heap_test, given_back_memory_is_the_systems_at_once) {
  // Longer than one slice, and not a multiple of it.
  span* const s = take(40 * mib / page_size + 3);
  const std::uintptr_t start = s->start;
  const std::size_t bytes = s->bytes();
  fill(s, 7);
  EXPECT_EQ(heap_.release_to_system(s), bytes);
  EXPECT_EQ(heap_.dirty_bytes(), 0U);
  EXPECT_EQ(heap_.stats().in_use, 0U);
  EXPECT_EQ(heap_.stats().returned, bytes);
  EXPECT_EQ(map_.span_of(start), nullptr) << "its address space is still known to the heap";
  check();
}

TEST_F(page_heap_test, random_steps_keep_every_invariant) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    random_walk walk(heap_, seed);
    for (int i = 0; i < 6000; ++i) {
      walk.step();
      check();
      ASSERT_EQ(heap_.stats().in_use, walk.live_bytes());
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    walk.drop_all();
    EXPECT_EQ(heap_.stats().in_use, 0U);
    heap_.trim(0);
    EXPECT_EQ(heap_.dirty_bytes(), 0U);
    check();
  }
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
  expect_off(access::purging_pages(heap_), "purging_pages_ == purging_sum");
  expect_off(access::reserved(heap_), "in_use + free_pages_ + purging_pages_ == reserved_");
  expect_off(access::spare_count(heap_), "spare_count_ == spare_structs");
  access::free_dirty(heap_)++;
  EXPECT_BROKEN(heap_.validate(), "page_heap", "free_dirty == dirty_sum", &heap_);
}

}  // namespace
}  // namespace tarn
