// SPDX-License-Identifier: MIT
#include "base/adaptive_limit.hpp"

#include <gtest/gtest.h>

namespace tarn {
namespace {

TEST(adaptive_limit, rises_by_what_was_given_up_and_made_anew) {
  adaptive_limit limit;
  EXPECT_FALSE(limit.note_made(3, 10)) << "none was given up";
  limit.note_given_up(5);
  EXPECT_EQ(limit.extra(), 0U);
  EXPECT_TRUE(limit.note_made(3, 10));
  EXPECT_EQ(limit.extra(), 3U);
  EXPECT_TRUE(limit.note_made(3, 10));
  EXPECT_EQ(limit.extra(), 5U) << "one more was made than given up";
  EXPECT_FALSE(limit.note_made(1, 10));
}

TEST(adaptive_limit, stays_below_its_bound) {
  adaptive_limit limit;
  limit.note_given_up(30);
  EXPECT_TRUE(limit.note_made(15, 10));
  EXPECT_EQ(limit.extra(), 10U);
  EXPECT_FALSE(limit.note_made(15, 10));
}

TEST(adaptive_limit, little_evidence_does_not_raise_it) {
  adaptive_limit limit;
  limit.note_given_up(4);
  EXPECT_FALSE(limit.note_made(2, 10, 6));
  limit.note_given_up(1);
  EXPECT_FALSE(limit.note_made(1, 10, 6));
  limit.note_given_up(1);
  EXPECT_TRUE(limit.note_made(3, 10, 6)) << "three of the six have been made anew before";
  EXPECT_EQ(limit.extra(), 3U);
  limit.end_period(0);
  limit.note_given_up(3);
  EXPECT_TRUE(limit.note_made(2, 10, 6)) << "what is kept because of it counts too";
  EXPECT_EQ(limit.extra(), 5U);
}

// A producer and a consumer: what the one puts back the other takes at once, so little is given up at any moment.
TEST(adaptive_limit, small_steps_add_up_to_evidence) {
  adaptive_limit limit;
  for (int step = 0; step < 9; ++step) {
    limit.note_given_up(10);
    EXPECT_FALSE(limit.note_made(10, 50, 100)) << step;
  }
  limit.note_given_up(10);
  EXPECT_TRUE(limit.note_made(10, 50, 100));
  EXPECT_EQ(limit.extra(), 10U);
  limit.note_given_up(10);
  EXPECT_TRUE(limit.note_made(10, 50, 100));
  EXPECT_EQ(limit.extra(), 20U);
}

TEST(adaptive_limit, evidence_counts_for_one_period) {
  adaptive_limit limit;
  limit.note_given_up(60);
  EXPECT_FALSE(limit.note_made(60, 50, 100));
  limit.end_period(0);
  limit.note_given_up(60);
  EXPECT_FALSE(limit.note_made(60, 50, 100));
}

TEST(adaptive_limit, falls_by_what_is_idle_for_a_period) {
  adaptive_limit limit;
  limit.note_given_up(5);
  EXPECT_TRUE(limit.note_made(4, 10));
  limit.end_period(1);
  EXPECT_EQ(limit.extra(), 3U);
  EXPECT_FALSE(limit.note_made(1, 10)) << "what was given up in an earlier period does not count";
  limit.end_period(7);
  EXPECT_EQ(limit.extra(), 0U);
}

TEST(adaptive_limit, clear_forgets_all) {
  adaptive_limit limit;
  limit.note_given_up(5);
  EXPECT_TRUE(limit.note_made(3, 10));
  limit.clear();
  EXPECT_EQ(limit.extra(), 0U);
  EXPECT_FALSE(limit.note_made(1, 10));
}

}  // namespace
}  // namespace tarn
