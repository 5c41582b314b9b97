// SPDX-License-Identifier: MIT
// The estimate of the time of all calls from the timed ones, and the cut of outliers.
#include "profiler/collect/call_times.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

namespace {

using namespace tarn::profiler;

TEST(call_times, the_time_is_exact_if_all_calls_are_timed) {
  timed_calls timed;
  timed.add(1, 10);
  timed.add(1, 30);
  const estimate all = time_of_calls(timed, 2, 99);
  EXPECT_DOUBLE_EQ(all.value, 40);
  EXPECT_DOUBLE_EQ(all.variance, 0);
}

TEST(call_times, without_timed_calls_the_given_mean_counts) {
  const estimate all = time_of_calls({}, 5, 20);
  EXPECT_DOUBLE_EQ(all.value, 100);
  EXPECT_DOUBLE_EQ(all.variance, 0);
}

// About 95 of 100 intervals contain the true sum; each draw times one in 16 of 8,000 calls with random durations.
TEST(call_times, the_stated_interval_holds_the_truth) {
  std::mt19937 random(7);
  std::exponential_distribution<double> time(1.0 / 50);
  int held = 0;
  constexpr int draws = 400;
  for (int draw = 0; draw < draws; ++draw) {
    timed_calls timed;
    double truth = 0;
    for (int call = 0; call < 8000; ++call) {
      const double ns = time(random);
      truth += ns;
      if (random() % 16 == 0) timed.add(16, ns);
    }
    const estimate all = time_of_calls(timed, 8000, 0);
    if (std::abs(all.value - truth) <= 1.96 * std::sqrt(all.variance)) ++held;
  }
  EXPECT_GE(held, draws * 92 / 100);
  EXPECT_LE(held, draws * 99 / 100);
}

TEST(largest_calls, a_far_outlying_call_is_cut_to_the_largest_of_the_others) {
  largest_calls largest;
  for (int call = 0; call < 99; ++call) largest.add({0, false, 100, 10});
  largest.add({3, true, 100, 1'000'000});
  const auto cut = largest.over_the_rest();
  ASSERT_EQ(cut.size(), 8U);
  EXPECT_EQ(cut[0].of.site, 3U);
  EXPECT_TRUE(cut[0].of.release);
  EXPECT_DOUBLE_EQ(cut[0].ns, 999'990);
  for (std::size_t index = 1; index < cut.size(); ++index) EXPECT_DOUBLE_EQ(cut[index].ns, 0);
  timed_calls timed;
  timed.add(100, 1'000'000);
  timed.lower(100, 1'000'000, 10);
  EXPECT_DOUBLE_EQ(timed.mean(), 10);
  EXPECT_DOUBLE_EQ(timed.weight2_ns2, 100.0 * 100 * 10 * 10);
}

TEST(largest_calls, of_many_calls_as_large_a_part_is_cut) {
  for (const auto& [calls, expected] : {std::pair{1000, 20U}, std::pair{100'000, 32U}}) {
    largest_calls largest;
    for (int call = 0; call < calls; ++call) largest.add({0, false, 2, 10});
    EXPECT_EQ(largest.over_the_rest().size(), expected);
  }
}

TEST(largest_calls, few_calls_are_cut_less) {
  largest_calls largest;
  for (int call = 0; call < 8; ++call) largest.add({0, false, 2, 10.0 * call});
  EXPECT_TRUE(largest.over_the_rest().empty());
  largest.add({0, false, 2, 1000});
  ASSERT_EQ(largest.over_the_rest().size(), 1U);
  EXPECT_DOUBLE_EQ(largest.over_the_rest()[0].ns, 930);
}

}  // namespace
