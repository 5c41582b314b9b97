// SPDX-License-Identifier: MIT
#include "pages/reservations.hpp"

#include <gtest/gtest.h>

#include "os/guarded_memory.hpp"

namespace tarn {
namespace {

class reservations_test : public testing::Test {
 protected:
  static constexpr std::uintptr_t base = std::uintptr_t{1} << 40;
  static constexpr std::size_t guard = os::guard_bytes;

  // Addresses in MiB behind `base`.
  static void set(span& s, std::size_t from, std::size_t to) {
    s.start = base + from * mib;
    s.pages = static_cast<std::uint32_t>((to - from) * mib >> page_shift);
  }
  hole hole_between(std::size_t from, std::size_t to) {
    set(free_, from, to);
    return reservations_.hole_in(&free_);
  }
  // Where the listed reservations lie.
  std::size_t listed() const {
    std::size_t count = 0;
    for (const span* r = reservations_.front(); r != nullptr; r = r->next) ++count;
    return count;
  }
  void expect_listed(const span* r, std::size_t from, std::size_t to) {
    EXPECT_EQ(r->start, base + from * mib);
    EXPECT_EQ(r->end(), base + to * mib);
  }

  reservations reservations_;
  span whole_;
  span free_;
};

TEST_F(reservations_test, all_of_a_reservation_goes_with_its_guards) {
  set(whole_, 0, 32);
  reservations_.add(&whole_);
  const hole h = hole_between(0, 32);
  EXPECT_EQ(h.start, base);
  EXPECT_EQ(h.end, base + 32 * mib);
  EXPECT_EQ(h.unmapped_start, base - guard);
  EXPECT_EQ(h.unmapped_end, base + 32 * mib + guard);
  span* const unused = reservations_.remove(&free_, true);
  EXPECT_EQ(unused, &whole_);
  EXPECT_EQ(unused->next, &free_);
  EXPECT_EQ(free_.next, nullptr);
  EXPECT_EQ(listed(), 0U);
}

// Its addresses are free before it is removed: another thread's reservation may lie around them by then.
TEST_F(reservations_test, a_new_one_around_the_addresses_stays_when_the_old_one_goes) {
  set(whole_, 10, 20);
  reservations_.add(&whole_);
  ASSERT_EQ(hole_between(10, 20).bytes(), 10 * mib);
  span around;
  set(around, 4, 30);
  reservations_.add(&around);
  EXPECT_EQ(reservations_.remove(&free_, true), &whole_);
  ASSERT_EQ(listed(), 1U);
  expect_listed(&around, 4, 30);
  EXPECT_EQ(reservations_.front(), &around);
}

TEST_F(reservations_test, a_short_one_goes_as_a_whole_only) {
  set(whole_, 0, 3);
  reservations_.add(&whole_);
  EXPECT_EQ(hole_between(0, 1).bytes(), 0U);
  EXPECT_EQ(hole_between(1, 3).bytes(), 0U) << "no whole huge page and no guard beside";
  EXPECT_EQ(hole_between(0, 3).bytes(), 3 * mib);
}

TEST_F(reservations_test, a_middle_leaves_two_guards_and_two_reservations) {
  set(whole_, 0, 32);
  reservations_.add(&whole_);
  const hole h = hole_between(7, 21);
  EXPECT_EQ(h.start, base + 8 * mib) << "a whole huge page of memory beside it";
  EXPECT_EQ(h.end, base + 20 * mib);
  EXPECT_EQ(h.unmapped_start, h.start + guard);
  EXPECT_EQ(h.unmapped_end, h.end - guard);
  set(free_, 8, 20);
  EXPECT_EQ(reservations_.remove(&free_, true), nullptr) << "describes the upper part now";
  EXPECT_EQ(listed(), 2U);
  expect_listed(&whole_, 0, 8);
  expect_listed(&free_, 20, 32);
}

TEST_F(reservations_test, an_end_leaves_one_guard) {
  set(whole_, 0, 32);
  reservations_.add(&whole_);
  const hole low = hole_between(0, 9);
  EXPECT_EQ(low.unmapped_start, base - guard);
  EXPECT_EQ(low.end, base + 8 * mib);
  EXPECT_EQ(low.unmapped_end, low.end - guard);
  set(free_, 0, 8);
  EXPECT_EQ(reservations_.remove(&free_, true), &free_);
  expect_listed(&whole_, 8, 32);

  const hole high = hole_between(23, 32);
  EXPECT_EQ(high.start, base + 24 * mib);
  EXPECT_EQ(high.unmapped_start, high.start + guard);
  EXPECT_EQ(high.unmapped_end, base + 32 * mib + guard);
  set(free_, 24, 32);
  EXPECT_EQ(reservations_.remove(&free_, true), &free_);
  expect_listed(&whole_, 8, 24);
  EXPECT_EQ(listed(), 1U);
}

TEST_F(reservations_test, what_has_lost_a_guard_is_never_unmapped) {
  set(whole_, 0, 32);
  reservations_.add(&whole_);
  set(free_, 8, 20);
  EXPECT_NE(reservations_.remove(&free_, false), nullptr);
  EXPECT_EQ(listed(), 0U);
  EXPECT_EQ(hole_between(20, 32).bytes(), 0U);
}

TEST_F(reservations_test, becomes_longer_at_its_end) {
  set(whole_, 0, 32);
  reservations_.add(&whole_);
  EXPECT_FALSE(reservations_.extend(base + 16 * mib, mib));
  EXPECT_TRUE(reservations_.extend(base + 32 * mib, 32 * mib));
  expect_listed(&whole_, 0, 64);
  EXPECT_EQ(hole_between(0, 64).bytes(), 64 * mib);
}

TEST_F(reservations_test, what_lies_in_none_has_no_hole) {
  EXPECT_EQ(hole_between(0, 32).bytes(), 0U);
  set(whole_, 0, 32);
  reservations_.add(&whole_);
  EXPECT_EQ(hole_between(16, 48).bytes(), 0U) << "half of it lies in a reservation without guards";
}

}  // namespace
}  // namespace tarn
