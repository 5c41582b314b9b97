// SPDX-License-Identifier: MIT
// time_total: how the timed calls' figure of the time in malloc and the clock's are combined, and the error of the
// result.
#include "profiler/collect/time_total.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tarn::profiler {
namespace {

constexpr double ms = 1e6;
constexpr double each = 0.5 * ms;  // the clock's period

clock_counts samples(double all, double in_malloc) { return {each, all, in_malloc, 0, in_malloc}; }

// Standard error of the time for small blocks, as a part of it.
double error_of(const time_total& total) { return std::hypot(total.clock_error, total.systematic_error); }

TEST(time_total, with_many_samples_the_clock_s_figure_counts) {
  const time_total total = total_time({1000 * ms, 0, 0}, samples(10000, 3000));  // 1,500 ms
  EXPECT_NEAR(total.factor, 1.5, 0.02);
  EXPECT_GT(total.clock_part, 0.98);
  EXPECT_NEAR(total.clock_error, 1 / std::sqrt(3000.0), 0.002);
  EXPECT_LT(error_of(total), 0.03);
}

TEST(time_total, with_few_samples_the_timed_calls_count) {
  const time_total total = total_time({1 * ms, 0, 0}, samples(100, 1));
  EXPECT_NEAR(total.factor, 1, 0.2);
  EXPECT_LT(total.clock_part, 0.25);
  EXPECT_GT(error_of(total), 0.25);
  EXPECT_LE(error_of(total), 0.5);
}

TEST(time_total, without_samples_the_timed_calls_count_with_their_error) {
  for (const clock_counts& none : {clock_counts{}, clock_counts{each, 0, 0, 0}}) {
    const time_total total = total_time({1000 * ms, 0, 0}, none);
    EXPECT_EQ(total.factor, 1);
    EXPECT_EQ(total.clock_part, 0);
    EXPECT_EQ(total.clock_error, 0);
    EXPECT_EQ(total.systematic_error, timed_calls_error);
  }
}

TEST(time_total, many_samples_none_in_malloc_mean_little_time_in_malloc) {
  const time_total total = total_time({1000 * ms, 0, 0}, samples(10000, 0));
  EXPECT_LT(total.factor, 0.01);
  EXPECT_GE(total.factor, 0);
  EXPECT_TRUE(std::isfinite(total.clock_error));
}

TEST(time_total, without_time_for_small_blocks_there_is_nothing_to_scale) {
  const time_total total = total_time({0, 0, 100 * ms}, samples(10000, 100));
  EXPECT_EQ(total.factor, 1);
  EXPECT_EQ(total.systematic_error, 0);
}

// Calls for large blocks are mostly in the kernel, where the clock takes no samples.
TEST(time_total, the_clock_counts_little_where_large_blocks_take_most_of_the_time) {
  const time_total total = total_time({10 * ms, 0, 1000 * ms}, samples(10000, 20));
  EXPECT_NEAR(total.factor, 1, 0.01);
  EXPECT_LT(total.clock_part, 0.01);
}

TEST(time_total, what_large_blocks_take_in_user_space_is_not_the_small_ones) {
  const time_total total = total_time({1000 * ms, 0, 20 * ms}, samples(10000, 2020));  // 1,010 ms
  EXPECT_NEAR(total.factor, 1, 0.002);
}

// The clock's few samples say that the timed calls are far too low: these may have missed rare long calls.
TEST(time_total, timed_calls_that_are_far_too_low_do_not_outweigh_the_clock) {
  const time_total total = total_time({1.2 * ms, 0, 0}, samples(60, 7));  // 3.5 ms
  EXPECT_GT(total.factor * 1.2 * ms, 2.0 * ms);
  EXPECT_LT(total.factor * 1.2 * ms, 3.5 * ms);
}

// Threads that end within their first period have no samples. All samples are of the other threads, and none is in
// malloc.
TEST(time_total, time_without_samples_may_all_be_mallocs) {
  const time_total total = total_time({500 * ms, 0, 0}, samples(1000, 0), {1000 * ms, 10 * ms});
  EXPECT_LT(total.clock_part, 0.5);
  const double told = total.factor * 500 * ms;
  EXPECT_NEAR(told, 500 * ms, 1.96 * error_of(total) * told);
  EXPECT_LT(total.clock_error, 0.01)
      << "the error is systematic: such threads have no samples in any recording";
}

// Half of the records were lost; those that arrived stand for the others.
TEST(time_total, half_of_the_samples_have_the_share_of_all) {
  const time_total total = total_time({300 * ms, 0, 0}, samples(1000, 500), {1000 * ms, 10 * ms});
  const double by_clock = 500 * ms;
  EXPECT_GT(total.factor * 300 * ms, 300 * ms);
  EXPECT_NEAR(total.factor * 300 * ms, total.clock_part * by_clock + (1 - total.clock_part) * 300 * ms,
              10 * ms);
}

TEST(time_total, samples_that_cover_the_user_time_count_as_complete) {
  const clock_counts clock = samples(2000, 600);
  const time_total unknown = total_time({300 * ms, 0, 0}, clock);
  for (const double user : {900 * ms, 1000 * ms, 1008 * ms, 1050 * ms}) {
    const time_total total = total_time({300 * ms, 0, 0}, clock, {user, 500 * ms});
    EXPECT_EQ(total.factor, unknown.factor) << user / ms;
    EXPECT_EQ(total.systematic_error, unknown.systematic_error);
  }
}

TEST(time_total, the_best_figure_lies_between_both_and_is_better_than_each) {
  const time_total total = total_time({10 * ms, 0, 0}, samples(200, 30));  // 15 ms
  EXPECT_GT(total.factor, 1.1);
  EXPECT_LT(total.factor, 1.5);
  EXPECT_LT(error_of(total) * total.factor, timed_calls_error);
  EXPECT_LT(error_of(total) * total.factor * 10 * ms, each * std::sqrt(31));
}

}  // namespace
}  // namespace tarn::profiler
