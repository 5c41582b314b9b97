// SPDX-License-Identifier: MIT
// page_heap: when free pages go back to the system: by age, beyond a limit, by trim, and at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../../system_probes.hpp"
#include "base/units.hpp"
#include "mapping_flags.hpp"
#include "os/memory.hpp"
#include "page_heap_fixture.hpp"

namespace tarn {
namespace {

class page_heap_return_test : public page_heap_fixture {};

TEST_F(page_heap_return_test, memory_goes_back_after_one_to_two_periods) {
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

TEST_F(page_heap_return_test, neighbours_that_come_and_go_do_not_keep_old_pages_backed) {
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

TEST_F(page_heap_return_test, a_page_used_again_is_young_again) {
  span* s = take(8);
  heap_.deallocate(s);
  EXPECT_TRUE(heap_.age());
  s = take(8, 1, source::warm);
  heap_.deallocate(s);
  EXPECT_TRUE(heap_.age());
  EXPECT_EQ(heap_.dirty_bytes(), 8 * page_size) << "returned after less than a period";
  EXPECT_FALSE(heap_.age());
}

TEST_F(page_heap_return_test, trim_keeps_what_it_is_told_to) {
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

TEST_F(page_heap_return_test, of_a_long_span_only_what_is_too_much_goes_back) {
  constexpr std::size_t pages = 16 * mib >> page_shift;
  heap_.deallocate(take(pages));
  heap_.trim(13 * mib);
  EXPECT_LE(heap_.dirty_bytes(), 13 * mib);
  EXPECT_GE(heap_.dirty_bytes(), 13 * mib - huge_page_size) << "a huge page is not purged in part";
  check();
}

TEST_F(page_heap_return_test, free_pages_beyond_the_limit_go_back_at_once) {
  heap_.limits().set_most_free(mib);
  std::vector<span*> spans;
  for (int i = 0; i < 16; ++i) spans.push_back(take(64));
  for (std::size_t i = 0; i < 16; i += 2) {
    heap_.deallocate(spans[i]);
    EXPECT_LE(heap_.dirty_bytes(), mib);
    check();
  }
  EXPECT_NE(heap_.stats().returned, 0U);
}

TEST_F(page_heap_return_test, by_itself_the_limit_grows_with_what_is_in_use) {
  const backing_limits& limits = heap_.limits();
  EXPECT_EQ(limits.most_free(0), 256 * mib);
  EXPECT_EQ(limits.most_free(512 * mib), 256 * mib);
  EXPECT_EQ(limits.most_free(2 * gib), gib);
  heap_.limits().set_most_free(mib);
  EXPECT_EQ(limits.most_free(2 * gib), mib) << "a limit that was set is kept";
}

TEST_F(page_heap_return_test, a_large_heap_keeps_more_than_a_small_one_but_no_long_block) {
  std::vector<span*> spans;
  for (int i = 0; i < 200; ++i) spans.push_back(take(8 * mib >> page_shift));
  for (std::size_t i = 0; i < 80; i += 2) heap_.deallocate(spans[i]);
  EXPECT_EQ(heap_.dirty_bytes(), 320 * mib) << "less than half of 1,280 MiB in use";
  heap_.deallocate(take(300 * mib >> page_shift));
  EXPECT_LE(heap_.dirty_bytes(), 256 * mib);
  check();
}

TEST_F(page_heap_return_test, given_back_memory_is_the_systems_at_once) {
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

// Backed by one write, as the system does it where it gives a huge page.
TEST_F(page_heap_return_test, with_a_part_of_a_huge_page_goes_what_it_backed_and_nobody_used) {
  engine_->touch.set_everywhere(true);
  span* const part = take(3);
  span* const live = take(1);
  ASSERT_EQ(live->start, part->end()) << "no free span goes from `part` to `unused`";
  const std::uintptr_t first = part->start;
  map_.note_huge(first, huge_page_size, true);
  const std::uintptr_t unused = align_down(first, huge_page_size) + huge_page_size / 2;
  ASSERT_EQ(map_.backing(unused), page_backing::clean);
  *reinterpret_cast<char*>(unused) = 1;
  heap_.deallocate(part);
  heap_.age();
  EXPECT_EQ(byte_at(unused), 1);
  heap_.age();
  EXPECT_EQ(map_.backing(first), page_backing::clean);
  check();
  if (heap_.has_idle_memory()) heap_.age();  // it lies in another span, whose turn may have been before
  EXPECT_EQ(byte_at(unused), 0);
  EXPECT_EQ(heap_.dirty_bytes(), 0U);
  engine_->touch.set_everywhere(false);
  heap_.deallocate(live);
  check();
}

TEST_F(page_heap_return_test, trim_takes_what_it_notes_beside_live_spans) {
  engine_->touch.set_everywhere(true);
  span* const part = take(3);
  span* const live = take(1);
  map_.note_huge(part->start, huge_page_size, true);
  heap_.deallocate(part);
  heap_.trim(0);
  EXPECT_EQ(heap_.dirty_bytes(), 0U);
  EXPECT_GT(heap_.stats().returned, 3 * page_size);
  engine_->touch.set_everywhere(false);
  heap_.deallocate(live);
  check();
}

// A clean span that is too long to be partly dirty: a part is cut off, and what is left may be joined behind it.
TEST_F(page_heap_return_test, of_a_long_span_the_part_in_the_huge_page_is_cut_off) {
  constexpr std::size_t longest_mixed = (64 * mib) >> page_shift;
  constexpr std::size_t some = (3 * mib) >> page_shift;
  std::vector<span*> all;
  for (int i = 0; i < 40; ++i) all.push_back(take(some));
  if (!are_neighbours(all)) GTEST_SKIP() << "this build's reservations are too short";
  for (span* s : all) heap_.deallocate(s);
  heap_.trim(0);
  span* const purged = take(200);
  ASSERT_EQ(purged->start % huge_page_size, 0U);
  const std::uintptr_t end = purged->end();
  const std::size_t between = longest_mixed + 10;
  for (std::size_t left = (heap_.stats().reserved >> page_shift) - 200 - 16 - between; left != 0;) {
    const std::size_t pages = std::min(some, left);
    take(pages, 1, source::any, use::sparse);
    left -= pages;
  }
  span* const behind = take(16, 1, source::any, use::sparse);
  ASSERT_EQ(map_.span_of(end)->pages, between);
  ASSERT_EQ(map_.span_of(end)->end(), behind->start);
  engine_->touch.set_everywhere(true);
  map_.note_huge(purged->start, huge_page_size, true);
  heap_.deallocate(purged);
  heap_.prepare_split();
  heap_.deallocate(behind);
  heap_.trim(16 * page_size);
  check();
  engine_->touch.set_everywhere(false);
}

// The walk to the borders of a reservation holds the heap's lock, for which the program's threads wait.
TEST_F(page_heap_return_test, a_huge_page_is_opted_out_once_however_often_parts_of_it_are_purged) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  const std::size_t unit = os::page_unit();
  span* const s = take(4 * (unit >> page_shift));
  const std::uintptr_t start = s->start;
  const auto ask = [=] { return os::advise_huge(reinterpret_cast<void*>(start), unit); };
  const auto is_opted_out = [=] { return mapping_flags(start).find(" nh ") != std::string::npos; };
  if (!ask() || mapping_flags(start).empty())
    GTEST_SKIP() << "no huge pages here, or the system does not tell";
  engine_->touch.set_everywhere(true);
  map_.note_huge(start, unit, true);
  EXPECT_TRUE(heap_.purge_within(s, start, unit));
  EXPECT_TRUE(is_opted_out());
  ask();
  EXPECT_TRUE(heap_.purge_within(s, start + unit, unit));
  EXPECT_FALSE(is_opted_out()) << "though the heap has not asked for huge pages there since";
  map_.note_huge(start, unit, true);
  EXPECT_TRUE(heap_.purge_within(s, start + 2 * unit, unit));
  EXPECT_TRUE(is_opted_out());
  engine_->touch.set_everywhere(false);
  heap_.deallocate(s);
  check();
}

// The peak of a program that frees much and then takes long blocks would be as much higher.
TEST_F(page_heap_return_test, beside_fresh_memory_for_a_block_no_more_than_a_bound_stays_backed) {
  constexpr std::size_t pages = 3 * mib >> page_shift;
  constexpr std::size_t dirty = 400 * mib;
  std::vector<span*> spans;
  while (heap_.in_use_bytes() < 2400 * mib + dirty) spans.push_back(take(pages));
  for (std::size_t i = 0; heap_.dirty_bytes() < dirty; i += 2) heap_.deallocate(spans[i]);
  const std::size_t before = heap_.dirty_bytes();
  take(pages + 1, 1, source::any, use::sparse);
  EXPECT_LE(heap_.dirty_bytes(), before - 3 * mib) << "a quarter of what is in use would be more";
}

// They are taken a few at a time, so that the lock is free in between.
TEST_F(page_heap_return_test, each_of_many_spans_of_a_length_is_visited_once_in_a_period) {
  constexpr std::size_t count = 1000;
  engine_->touch.set_mode(huge_pages::never);  // of which the rest would count as old
  std::vector<span*> spans;
  for (std::size_t i = 0; i < 2 * count; ++i) spans.push_back(take(3));
  std::vector<std::uintptr_t> starts;
  for (std::size_t i = 0; i < 2 * count; i += 2) {
    starts.push_back(spans[i]->start);
    heap_.deallocate(spans[i]);
  }
  const auto count_of = [&](page_backing backing) {
    return std::count_if(starts.begin(), starts.end(),
                         [&](std::uintptr_t start) { return map_.backing(start) == backing; });
  };
  EXPECT_TRUE(heap_.age());
  EXPECT_EQ(count_of(page_backing::old), count);
  EXPECT_FALSE(heap_.age());
  EXPECT_EQ(count_of(page_backing::clean), count);
  check();
}

}  // namespace
}  // namespace tarn
