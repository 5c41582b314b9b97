// SPDX-License-Identifier: MIT
// first_touch: which pages are populated or backed by huge pages, when, and what it learns from blocks.
#include "pages/first_touch.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "../../system_probes.hpp"
#include "broken_invariant.hpp"
#include "mapping_flags.hpp"
#include "os/clock.hpp"
#include "os/memory.hpp"

namespace tarn {

class first_touch_test_access {
 public:
  static std::uintptr_t& prepared(first_touch& touch) { return touch.prepared_; }
};

namespace {

constexpr std::uintptr_t base = std::uintptr_t{1} << 40;
constexpr std::size_t reservation = 256 * mib;

class first_touch_test : public testing::Test {
 protected:
  first_touch_test() { touch_.reserved_locked(base, reservation); }

  first_touch touch_;
};

TEST_F(first_touch_test, a_small_heap_pays_for_what_it_touches_only) {
  for (std::size_t used = 0; used + 64 * kib < first_touch::populate_from; used += 64 * kib) {
    EXPECT_TRUE(touch_.plan_locked(base + used, 64 * kib, used).is_empty());
  }
}

TEST_F(first_touch_test, above_that_pages_are_populated_ahead_by_a_small_part_of_the_heap) {
  std::uintptr_t at = base;
  std::uintptr_t prepared = base;
  for (std::size_t heap = first_touch::populate_from; heap < first_touch::huge_from; heap += 64 * kib) {
    const touch_plan plan = touch_.plan_locked(at, 64 * kib, heap);
    EXPECT_EQ(plan.huge_bytes, 0U);
    at += 64 * kib;
    if (plan.populate_bytes != 0) {
      EXPECT_EQ(plan.populate_start, prepared) << "a page is populated twice or left out";
      prepared = plan.populate_start + plan.populate_bytes;
      EXPECT_LE(plan.populate_bytes, 64 * kib + first_touch::populate_most);
    }
    EXPECT_GE(prepared, at) << "a page is handed out unprepared";
    EXPECT_LE(prepared - at, heap / 32 + 16 * kib);
  }
}

TEST_F(first_touch_test, a_large_heap_asks_for_huge_pages) {
  touch_.plan_locked(base, first_touch::huge_from / 2, 0);
  std::uintptr_t at = base + first_touch::huge_from / 2;
  std::uintptr_t advised = at;
  for (std::size_t heap = first_touch::huge_from; at + mib <= base + reservation; heap += mib) {
    const touch_plan plan = touch_.plan_locked(at, mib, heap);
    at += mib;
    EXPECT_EQ(plan.populate_bytes, 0U);
    if (plan.huge_bytes != 0) {
      EXPECT_EQ(plan.huge_start % huge_page_size, 0U);
      EXPECT_EQ(plan.huge_bytes % huge_page_size, 0U);
      EXPECT_GE(plan.huge_start, advised) << "advised twice";
      advised = plan.huge_start + plan.huge_bytes;
      EXPECT_LE(advised, base + reservation);
      EXPECT_LE(advised, at + heap / 8 + huge_page_size);
    }
    EXPECT_GE(advised, align_down(at, huge_page_size));
  }
  EXPECT_EQ(advised, base + reservation);
}

TEST_F(first_touch_test, a_large_heap_with_few_dense_spans_asks_for_none) {
  EXPECT_EQ(touch_.plan_locked(base, mib, gib).huge_bytes, 0U);
  EXPECT_EQ(touch_.plan_locked(base + mib, first_touch::huge_from / 2 - 2 * mib, gib).huge_bytes, 0U);
  EXPECT_NE(touch_.plan_locked(base + first_touch::huge_from / 2 - mib, mib, gib).huge_bytes, 0U);
}

// Memory that has left the heap may be mapped by other parts of the program.
TEST_F(first_touch_test, nothing_is_prepared_in_what_has_left_the_heap_nor_behind_it) {
  EXPECT_FALSE(touch_.plan_locked(base, mib, 8 * mib).is_empty());
  touch_.withhold_locked(base + 4 * mib, base + 8 * mib);
  const touch_plan last = touch_.plan_locked(base + mib, 3 * mib, gib);
  EXPECT_LE(last.huge_start + last.huge_bytes, base + 4 * mib);
  EXPECT_LE(last.populate_start + last.populate_bytes, base + 4 * mib);
  EXPECT_TRUE(touch_.plan_locked(base + 8 * mib, mib, gib).is_empty());
  EXPECT_EQ(touch_.ahead_locked(), 0U);
}

TEST_F(first_touch_test, what_has_left_the_heap_elsewhere_changes_nothing) {
  EXPECT_FALSE(touch_.plan_locked(base, 8 * mib, 8 * mib).is_empty());
  touch_.withhold_locked(base, base + 4 * mib);
  touch_.withhold_locked(base - 8 * mib, base);
  touch_.withhold_locked(base + reservation, base + 2 * reservation);
  EXPECT_FALSE(touch_.plan_locked(base + 8 * mib, mib, 8 * mib).is_empty());
}

TEST_F(first_touch_test, spans_from_the_high_end_and_in_their_place_leave_the_frontier_where_it_is) {
  EXPECT_FALSE(touch_.plan_locked(base, mib, 64 * mib).is_empty());
  touch_.withhold_locked(base + reservation - mib, base + reservation);
  EXPECT_TRUE(touch_.plan_locked(base + reservation - mib, mib, 64 * mib).is_empty());
  touch_.plan_locked(base + reservation - 2 * mib, 2 * mib, 64 * mib);
  const touch_plan next = touch_.plan_locked(base + mib, 16 * mib, 64 * mib);
  EXPECT_NE(next.huge_bytes, 0U);
  EXPECT_LE(touch_.plan_locked(base + 17 * mib, 2 * mib, 2 * gib).huge_bytes, reservation - 17 * mib);
  touch_.validate_locked();
}

// A heap of `touch_ahead_from` with huge pages asked for up to `ahead` behind `base`.
class touched_ahead_test : public first_touch_test {
 protected:
  touched_ahead_test() {
    touch_.plan_locked(base, first_touch::huge_from / 2, 0);
    plan_ = touch_.plan_locked(at_, 8 * kib, first_touch::touch_ahead_from);
  }

  static constexpr std::uintptr_t at_ = base + first_touch::huge_from / 2;
  touch_plan plan_;
};

TEST_F(touched_ahead_test, the_second_page_is_claimed_once) {
  EXPECT_NE(plan_.huge_bytes, 0U);
  EXPECT_TRUE(plan_.has_next);
  EXPECT_EQ(plan_.timed_start, 0U) << "the caller waits for the first one";
  EXPECT_EQ(touch_.ahead_locked(), 2 * huge_page_size - 8 * kib);
  EXPECT_FALSE(touch_.plan_locked(at_ + 8 * kib, mib, first_touch::touch_ahead_from).has_next);
  EXPECT_EQ(touch_.claim_next_locked(), at_ + huge_page_size);
  EXPECT_EQ(touch_.claim_next_locked(), 0U);
  touch_.validate_locked();
}

TEST_F(touched_ahead_test, none_where_the_program_has_come_first) {
  touch_.plan_locked(at_ + 8 * kib, huge_page_size, mib);
  EXPECT_EQ(touch_.claim_next_locked(), 0U) << "the program's write has backed it";
}

TEST_F(touched_ahead_test, none_where_the_memory_has_left) {
  touch_.withhold_locked(at_ + huge_page_size + mib, base + reservation);
  EXPECT_EQ(touch_.claim_next_locked(), 0U) << "it may belong to another mapping";
}

TEST_F(touched_ahead_test, none_of_an_older_reservation) {
  touch_.reserved_locked(base - gib, reservation);
  EXPECT_EQ(touch_.claim_next_locked(), 0U);
}

TEST_F(touched_ahead_test, a_smaller_heap_times_the_first_one) {
  touch_.reserved_locked(base - gib, reservation);
  const touch_plan plan = touch_.plan_locked(base - gib, 8 * kib, first_touch::touch_ahead_from - 1);
  EXPECT_FALSE(plan.has_next);
  EXPECT_EQ(plan.timed_start, plan.huge_start);
}

TEST_F(touched_ahead_test, a_fast_touch_is_evidence_for_a_moment) {
  // Again where the thread has lost its processor for longer than the moment.
  touch_plan plan;
  std::int64_t begin = 0;
  do {
    begin = os::now_ms();
    touch_.reserved_locked(base - gib, reservation);
    touch_.note_touch_time(first_touch::slow_touch_us);
    plan = touch_.plan_locked(base - gib, 8 * kib, gib);
  } while (os::now_ms() >= begin + first_touch::trusted_ms);
  EXPECT_NE(plan.huge_bytes, 0U);
  EXPECT_FALSE(plan.has_next);
  EXPECT_EQ(plan.timed_start, 0U);
}

TEST_F(touched_ahead_test, after_a_slow_one_the_rest_is_given_up) {
  const std::uintptr_t next = touch_.claim_next_locked();
  const os::address_range rest = touch_.give_up_rest_locked(next + huge_page_size);
  EXPECT_EQ(rest.start, next + huge_page_size);
  EXPECT_EQ(rest.end, plan_.huge_start + plan_.huge_bytes);
  EXPECT_TRUE(touch_.give_up_rest_locked(next + huge_page_size).empty());
  touch_.validate_locked();
}

TEST_F(touched_ahead_test, what_nobody_comes_to_is_given_up) {
  const std::uintptr_t next = touch_.claim_next_locked();
  EXPECT_TRUE(touch_.idle_ahead_locked(false).empty()) << "the frontier has moved since the last call";
  const os::address_range ahead = touch_.idle_ahead_locked(false);
  EXPECT_EQ(ahead.start, next);
  EXPECT_EQ(ahead.end, next + huge_page_size);
  touch_.give_up_ahead_locked();
  EXPECT_TRUE(touch_.idle_ahead_locked(true).empty()) << "nothing is ahead any more";
  touch_.validate_locked();
  EXPECT_EQ(touch_.plan_locked(at_ + 8 * kib, 4 * mib, first_touch::touch_ahead_from).huge_start, next)
      << "it is prepared again";
}

TEST_F(touched_ahead_test, on_request_it_is_idle_at_once) {
  const std::uintptr_t next = touch_.claim_next_locked();
  EXPECT_EQ(touch_.idle_ahead_locked(true).start, next);
}

TEST_F(first_touch_test, modes) {
  touch_.set_mode(huge_pages::never);
  EXPECT_EQ(touch_.plan_locked(base, 2 * mib, gib).huge_bytes, 0U);
  touch_.set_mode(huge_pages::always);
  EXPECT_NE(touch_.plan_locked(base + 4 * mib, 2 * mib, 64 * kib).huge_bytes, 0U);
}

TEST_F(first_touch_test, only_at_the_frontier_of_the_newest_reservation) {
  EXPECT_FALSE(touch_.plan_locked(base, 8 * mib, 64 * mib).is_empty());
  EXPECT_TRUE(touch_.plan_locked(base + mib, mib, 64 * mib).is_empty()) << "a plan for memory used before";
  EXPECT_TRUE(touch_.plan_locked(base - mib, mib, 64 * mib).is_empty()) << "a plan for another reservation";
  EXPECT_TRUE(touch_.plan_locked(base + reservation + mib, mib, 64 * mib).is_empty());
}

TEST_F(first_touch_test, the_end_of_the_reservation_is_the_end) {
  const touch_plan plan = touch_.plan_locked(base + reservation - 8 * kib, 8 * kib, 8 * mib);
  EXPECT_EQ(plan.populate_start + plan.populate_bytes, base + reservation);
}

TEST(first_touch, a_large_block_asks_for_huge_pages_once_such_blocks_are_known_to_be_filled) {
  first_touch touch;
  const std::uintptr_t start = 77 * huge_page_size + 3 * page_size;
  const std::size_t bytes = 9 * mib;
  EXPECT_EQ(touch.plan_block(start, bytes, start, 64 * mib).huge_bytes, 0U) << "before anything is known";
  touch.note_filled(true);
  const touch_plan plan = touch.plan_block(start, bytes, start, 64 * mib);
  EXPECT_EQ(plan.huge_start, start) << "a part of the block only, which would split its mapping";
  EXPECT_EQ(plan.huge_bytes, bytes);
  EXPECT_EQ(plan.timed_start, align_up(start, huge_page_size));
  EXPECT_EQ(touch.plan_block(start, bytes, start + 3 * mib, 64 * mib).timed_start,
            align_up(start + 3 * mib, huge_page_size))
      << "memory that is backed already is always fast";
  EXPECT_EQ(plan.populate_bytes, 0U);
  EXPECT_EQ(touch.plan_block(start, bytes, start, first_touch::huge_from - 1).huge_bytes, 0U);
  EXPECT_EQ(touch.plan_block(start, first_touch::huge_block_from - page_size, start, 64 * mib).huge_bytes,
            0U);
  touch.note_filled(false);
  EXPECT_EQ(touch.plan_block(start, bytes, start, 64 * mib).huge_bytes, 0U);
  touch.set_mode(huge_pages::always);
  EXPECT_NE(touch.plan_block(start, bytes, start, bytes).huge_bytes, 0U);
  EXPECT_EQ(touch.plan_block(start, bytes, start, bytes).timed_start, 0U) << "`always` needs no measurement";
  touch.set_mode(huge_pages::never);
  EXPECT_EQ(touch.plan_block(start, bytes, start, 64 * mib).huge_bytes, 0U);
}

TEST(first_touch, a_block_that_is_freed_shows_whether_it_was_filled) {
  constexpr std::size_t bytes = 8 * mib;
  const auto asks_after = [](bool fill) {
    first_touch touch;
    char* const start = static_cast<char*>(os::reserve(bytes, huge_page_size));
    start[0] = 1;
    if (fill) std::memset(start, 1, bytes);
    touch.learn_from(address_of(start), bytes);
    os::release(start, bytes);
    return touch.plan_block(base, bytes, base, 64 * mib).huge_bytes != 0;
  };
  EXPECT_TRUE(asks_after(true));
  EXPECT_FALSE(asks_after(false));
}

TEST_F(first_touch_test, what_is_ahead_is_what_was_prepared_and_not_handed_out) {
  EXPECT_EQ(touch_.ahead_locked(), 0U);
  const touch_plan plan = touch_.plan_locked(base, 16 * kib, 8 * mib);
  EXPECT_EQ(touch_.ahead_locked(), plan.populate_bytes - 16 * kib);
  touch_.plan_locked(base + 16 * kib, 32 * kib, 8 * mib);
  EXPECT_EQ(touch_.ahead_locked(), plan.populate_bytes - 48 * kib);
  // A plan further on, because other threads have taken the pages in between, of which some may be backed and free.
  const std::size_t left = touch_.ahead_locked();
  touch_.plan_locked(base + mib, 64 * kib, 64 * kib);
  EXPECT_EQ(touch_.ahead_locked(), left);
  // Now the remaining part of the huge page with the last byte is ahead too.
  touch_.set_mode(huge_pages::always);
  touch_.plan_locked(base + mib + 64 * kib, 2 * mib, first_touch::touch_ahead_from - 1);
  EXPECT_EQ(touch_.ahead_locked(), left + mib - 64 * kib);
  touch_.reserved_locked(base + gib, reservation);
  EXPECT_EQ(touch_.ahead_locked(), left + mib - 64 * kib) << "the older reservation no longer counts";
}

TEST(first_touch, a_forked_child_begins_as_a_small_heap) {
  constexpr std::size_t bytes = 32 * mib;
  void* const memory = os::reserve(bytes, huge_page_size);
  ASSERT_NE(memory, nullptr);
  const std::uintptr_t start = address_of(memory);
  first_touch touch;
  touch.reserved_locked(start, bytes);
  touch.note_touch_time(0);  // however slow huge pages are here
  touch.plan_locked(start, first_touch::huge_from / 2, 0);
  const std::uintptr_t frontier = start + first_touch::huge_from / 2 + 8 * kib;
  touch.carry_out(touch.plan_locked(frontier - 8 * kib, 8 * kib, 64 * mib));
  if (touch.huge_advised() == 0) {
    os::release(memory, bytes);
    GTEST_SKIP() << "this system makes no huge pages on request";
  }
  touch.begin_child_locked(64 * mib);
  touch.validate_locked();
  EXPECT_NE(mapping_flags(frontier).find(" nh "), std::string::npos) << "a small block backs 2 MiB";
  EXPECT_TRUE(touch.plan_locked(frontier, 8 * kib, 64 * mib + 8 * kib).is_empty());
  const touch_plan grown = touch.plan_locked(frontier + 8 * kib, 8 * mib, 64 * mib + first_touch::huge_from);
  EXPECT_NE(grown.huge_bytes, 0U) << "a child that has grown itself is like any heap";
  os::release(memory, bytes);
}

TEST(first_touch, a_fast_touch_is_evidence_for_a_moment) {
  first_touch touch;
  touch.note_filled(true);
  EXPECT_NE(touch.plan_block(base, 9 * mib, base, 64 * mib).timed_start, 0U);
  touch.note_touch_time(first_touch::slow_touch_us);
  EXPECT_EQ(touch.plan_block(base, 9 * mib, base, 64 * mib).timed_start, 0U);
  std::this_thread::sleep_for(std::chrono::milliseconds(first_touch::trusted_ms + 1));
  EXPECT_NE(touch.plan_block(base, 9 * mib, base, 64 * mib).timed_start, 0U);
}

TEST(first_touch, slow_huge_pages_are_left_alone_for_a_while) {
  first_touch touch;
  touch.note_filled(true);
  touch.note_touch_time(first_touch::slow_touch_us);
  EXPECT_NE(touch.plan_block(base, 9 * mib, base, 64 * mib).huge_bytes, 0U);
  touch.note_touch_time(first_touch::slow_touch_us + 1);
  EXPECT_EQ(touch.plan_block(base, 9 * mib, base, 64 * mib).huge_bytes, 0U);
  touch.reserved_locked(base, reservation);
  const touch_plan plan = touch.plan_locked(base, first_touch::huge_from, 64 * mib);
  EXPECT_EQ(plan.huge_bytes, 0U);
  EXPECT_NE(plan.populate_bytes, 0U) << "populating several pages in one call is still allowed";
  touch.set_mode(huge_pages::always);
  EXPECT_NE(touch.plan_block(base, 9 * mib, base, 64 * mib).huge_bytes, 0U)
      << "`always` ignores the measurement";
  touch.set_mode(huge_pages::automatic);
  const timespec pause{first_touch::pause_ms / 1000, 50'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_NE(touch.plan_block(base, 9 * mib, base, 64 * mib).huge_bytes, 0U)
      << "not tried again after the pause";
}

TEST(first_touch, what_is_carried_out_is_counted) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  void* const start = os::reserve(8 * mib, huge_page_size);
  ASSERT_NE(start, nullptr);
  first_touch touch;
  touch.reserved_locked(address_of(start), 8 * mib);
  touch.carry_out(touch.plan_locked(address_of(start), mib, 8 * mib));
  unsigned char backed = 0;
  ASSERT_EQ(mincore(start, os::system_page_size(), &backed), 0);
  // If the system refuses, nothing is counted.
  EXPECT_EQ(touch.populated() != 0, (backed & 1) != 0);
  if (touch.populated() != 0) {
    EXPECT_EQ(touch.populated(), mib);
  }
  touch.carry_out(touch_plan{});
  os::release(start, 8 * mib);
  const std::size_t before = touch.populated();
  touch.carry_out({.populate_start = address_of(start), .populate_bytes = mib});
  EXPECT_EQ(touch.populated(), before) << "a failure was counted";
}

TEST(first_touch, where_something_was_purged_the_system_makes_no_huge_pages) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  constexpr std::size_t bytes = 4 * huge_page_size;
  char* const start = static_cast<char*>(os::reserve(bytes, huge_page_size));
  ASSERT_NE(start, nullptr);
  first_touch touch;
  touch.set_mode(huge_pages::always);
  touch.carry_out(touch.plan_block(address_of(start), bytes, address_of(start), gib));
  // Does what khugepaged does sooner or later if one page of a huge page is backed.
  constexpr int collapse = 25;  // MADV_COLLAPSE
  const auto collapses = [start](std::size_t n) {
    start[n * huge_page_size] = 1;
    return madvise(start + n * huge_page_size, huge_page_size, collapse) == 0;
  };
  if (!collapses(0)) {
    os::release(start, bytes);
    GTEST_SKIP() << "this system makes no huge pages on request";
  }
  touch.withdraw_huge(address_of(start) + 2 * huge_page_size - 64 * kib, 128 * kib);
  EXPECT_TRUE(os::purge(start + 2 * huge_page_size - 64 * kib, 128 * kib));
  EXPECT_TRUE(collapses(0));
  EXPECT_FALSE(collapses(1));
  EXPECT_FALSE(collapses(2));
  EXPECT_TRUE(collapses(3)) << "though nothing was purged there";
  os::release(start, bytes);
}

// If the system's huge pages are `always`, the first byte of a small program's heap would take 2 MiB.
TEST(first_touch, a_small_heap_refuses_huge_pages_that_it_has_not_asked_for) {
  constexpr std::size_t bytes = 16 * mib;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  first_touch touch;
  EXPECT_FALSE(touch.opt_out(start, bytes, 0)) << "though the system gives no huge pages unasked";
  touch.set_everywhere(true);
  EXPECT_FALSE(touch.opt_out(start, bytes, first_touch::huge_from)) << "though the heap is large";
  touch.set_mode(huge_pages::always);
  EXPECT_FALSE(touch.opt_out(start, bytes, 0));
  touch.set_mode(huge_pages::automatic);
  const std::string before = mapping_flags(start);
  if (before.empty()) GTEST_SKIP() << "/proc/self/smaps has no VmFlags";
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  EXPECT_EQ(before.find(" nh "), std::string::npos);
  if (!touch.opt_out(start, bytes, 0)) GTEST_SKIP() << "this kernel has no huge pages";
  EXPECT_NE(mapping_flags(start).find(" nh "), std::string::npos);

  // A large block in that memory asks for the huge pages that the system would have given it.
  EXPECT_TRUE(touch.plan_block(start, 8 * mib, start, 0).is_empty());
  touch.opted_out_locked(start, bytes);
  const touch_plan plan = touch.plan_block(start, 8 * mib, start, 0);
  EXPECT_EQ(plan.huge_start, start);
  EXPECT_EQ(plan.huge_bytes, 8 * mib);
  EXPECT_EQ(plan.timed_start, 0U) << "a page is touched, though the program may not fill the block";
  EXPECT_TRUE(touch.plan_block(start, mib, start, 0).is_empty());
  EXPECT_TRUE(touch.plan_block(start + bytes, 8 * mib, start + bytes, 0).is_empty())
      << "outside, the system's setting applies";
  touch.set_mode(huge_pages::never);
  EXPECT_TRUE(touch.plan_block(start, 8 * mib, start, 0).is_empty());
  munmap(memory, bytes);
}

TEST_F(first_touch_test, finds_a_broken_invariant) {
  touch_.plan_locked(base, 64 * kib, 0);
  touch_.validate_locked();
  first_touch_test_access::prepared(touch_) = base;
  EXPECT_BROKEN(touch_.validate_locked(), "first_touch", "handed_out_ <= prepared_", &touch_);
  first_touch_test_access::prepared(touch_) = base + reservation + 1;
  EXPECT_BROKEN(touch_.validate_locked(), "first_touch", "prepared_ <= end_", &touch_);
}

}  // namespace
}  // namespace tarn
