// SPDX-License-Identifier: MIT
// Medians, quantiles and the signed-rank interval, checked against published tables and simulated noise.
#include "cli/compare/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tarn::cli {
namespace {

// With the unrounded ratio of the medians, as a report has it before rounding.
judgement judge_by_medians(const std::vector<double>& subject, const std::vector<double>& reference,
                           double confidence, double smallest) {
  return judge(subject, reference, median(subject) / median(reference), confidence, smallest);
}

TEST(statistics, median_of_odd_and_even_counts) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(statistics, quantiles_interpolate) {
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 1), 4);
  EXPECT_DOUBLE_EQ(half_quartile_range({1, 2, 3, 4}), 0.75);
}

TEST(statistics, signed_rank_interval_matches_published_critical_values) {
  // Tables of the signed-rank test: at 0.05 two-sided the critical sums are 0 for 6, 8 for 10 and
  // 52 for 20 differences; the attained confidences are 0.96875, 0.951171875, 0.9516….
  const auto interval_of = [](int count) {
    std::vector<double> values;
    for (int index = 0; index < count; ++index) values.push_back(index);
    return signed_rank_interval(values, 0.95);
  };
  EXPECT_FALSE(interval_of(5).has_value());
  ASSERT_TRUE(interval_of(6).has_value());
  EXPECT_DOUBLE_EQ(interval_of(6)->confidence, 0.96875);
  EXPECT_DOUBLE_EQ(interval_of(6)->low, 0);
  EXPECT_DOUBLE_EQ(interval_of(6)->high, 5);
  EXPECT_NEAR(interval_of(10)->confidence, 0.951171875, 1e-12);
  EXPECT_NEAR(interval_of(20)->confidence, 0.9516, 1e-4);
  // The 9th smallest of the 55 means of pairs of 0 … 9, in halves: 0 .5 1 1 1.5 1.5 2 2 2.
  EXPECT_DOUBLE_EQ(interval_of(10)->low, 2);
  EXPECT_DOUBLE_EQ(interval_of(10)->high, 7);
}

TEST(statistics, intervals_hold_as_often_as_they_say) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, 1);
  int outside = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values(10);
    for (double& value : values) value = noise(random);
    const auto interval = signed_rank_interval(values, 0.95);
    outside += interval->low > 0 || interval->high < 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(outside) / trials, 0.0488, 0.012);
}

TEST(statistics, two_ways_in_blocks_are_a_paired_t_test) {
  // Differences of the logarithms: 0.1, 0.2, 0.3; their mean 0.2, its standard error 0.1 / sqrt(3), and t of 2 degrees of
  // freedom at 97.5 % 4.3027.
  const std::vector<double> reference = {1, 5, 2};
  const std::vector<double> way = {std::exp(0.1), 5 * std::exp(0.2), 2 * std::exp(0.3)};
  const block_estimate found = estimate_blocks({reference, way}, 0.025)[1];
  EXPECT_TRUE(found.has_interval);
  EXPECT_NEAR(std::log(found.ratio), 0.2, 1e-12);
  EXPECT_NEAR(std::log(found.high), 0.2 + 4.3027 * 0.1 / std::sqrt(3), 1e-4);
  EXPECT_NEAR(std::log(found.low), 0.2 - 4.3027 * 0.1 / std::sqrt(3), 1e-4);
}

TEST(statistics, ways_of_fewer_rounds_are_compared_within_them) {
  // The second round is slow for all; the last way did not take part in it. No noise but the least.
  const auto found = estimate_blocks({{1, 3, 1}, {2, 6, 2}, {0.5}}, 0.05);
  EXPECT_NEAR(found[1].ratio, 2, 1e-9);
  EXPECT_NEAR(found[2].ratio, 0.5, 1e-9);
  EXPECT_LT(found[1].low, 2);
  EXPECT_GT(found[2].high - found[2].low, 0.5 * (found[1].high - found[1].low) / 2) << "fewer values, wider";
}

TEST(statistics, what_cannot_be_estimated_has_no_interval) {
  const auto one_round = estimate_blocks({{1}, {2}, {}}, 0.05);
  EXPECT_FALSE(one_round[1].has_interval);
  EXPECT_NEAR(one_round[1].ratio, 2, 1e-9);
  EXPECT_EQ(one_round[1].low, one_round[1].ratio);
  EXPECT_FALSE(one_round[2].has_interval);
  EXPECT_EQ(estimate_blocks({{1, 1}, {0, 1}}, 0.05)[1].ratio, 1);
  EXPECT_EQ(estimate_blocks({{0, 1}, {1, 1}}, 0.05)[1].ratio, 1);
  EXPECT_LT(estimate_blocks({{1, 1, 1}, {1, 1, 2}}, 1e-6)[1].high, 1e10)
      << "finite, so that JSON can hold it";
}

TEST(statistics, a_clear_difference_is_seen_and_sized) {
  std::vector<double> reference;
  std::vector<double> subject;
  for (int round = 0; round < 10; ++round) {
    // Rounds differ much more than contenders; pairing the contenders' runs of a round must cancel that.
    reference.push_back(1.0 + 0.3 * round);
    subject.push_back(0.9 * reference.back() * (1 + 0.002 * (round % 3 - 1)));
  }
  const judgement judged = judge_by_medians(subject, reference, 0.95, 0.01);
  EXPECT_EQ(judged.outcome, difference::less);
  EXPECT_NEAR(judged.ratio, 0.9, 0.003);
  EXPECT_LT(judged.high, 0.91);
  const judgement mirrored = judge_by_medians(reference, subject, 0.95, 0.01);
  EXPECT_EQ(mirrored.outcome, difference::more);
  EXPECT_NEAR(mirrored.ratio, 1 / 0.9, 0.004);
}

TEST(statistics, noise_is_no_difference) {
  const std::vector<double> left = {1.00, 1.05, 0.97, 1.02, 0.99, 1.04, 0.96, 1.01};
  const std::vector<double> right = {1.01, 1.00, 1.02, 0.98, 1.03, 0.97, 1.00, 1.02};
  EXPECT_EQ(judge_by_medians(left, right, 0.95, 0.01).outcome, difference::none);
  EXPECT_EQ(judge_by_medians(left, left, 0.95, 0.01).outcome, difference::none);
}

TEST(statistics, one_wild_run_decides_nothing) {
  std::vector<double> left(10, 1.0);
  const std::vector<double> right(10, 1.0);
  left[3] = 50;
  EXPECT_EQ(judge_by_medians(left, right, 0.95, 0.01).outcome, difference::none);
}

TEST(statistics, consistent_but_tiny_is_no_difference) {
  const std::vector<double> left(10, 1.004);
  const std::vector<double> right(10, 1.0);
  EXPECT_EQ(judge_by_medians(left, right, 0.95, 0.01).outcome, difference::none);
  EXPECT_EQ(judge_by_medians(left, right, 0.95, 0.001).outcome, difference::more);
}

TEST(statistics, few_rounds_need_complete_separation) {
  EXPECT_EQ(judge_by_medians({1.00, 1.01, 1.02}, {1.20, 1.21, 1.30}, 0.95, 0.01).outcome, difference::less);
  EXPECT_EQ(judge_by_medians({1.00, 1.01, 1.25}, {1.20, 1.21, 1.30}, 0.95, 0.01).outcome, difference::none);
  EXPECT_EQ(judge_by_medians({1.00, 1.00, 1.00}, {1.02, 1.02, 1.02}, 0.95, 0.01).outcome, difference::none);
  EXPECT_EQ(judge_by_medians({1.0, 1.0}, {2.0, 2.0}, 0.95, 0.01).outcome, difference::none);
  EXPECT_EQ(judge_by_medians({1.0, 1.0, 1.0}, {2.0, 2.0, 2.0}, 0.95, 0.01).confidence, 0);
}

TEST(statistics, the_given_ratio_is_reported_and_lies_in_the_interval) {
  const std::vector<double> left(10, 0.9);
  const std::vector<double> right(10, 1.0);
  const judgement judged = judge(left, right, 0.85, 0.95, 0.01);
  EXPECT_EQ(judged.outcome, difference::less);
  EXPECT_EQ(judged.ratio, 0.85);
  EXPECT_EQ(judged.low, 0.85);
  EXPECT_NEAR(judged.high, 0.9, 1e-12);
  EXPECT_EQ(judge(left, right, 1.1, 0.95, 0.01).outcome, difference::none) << "ratio above 1, rounds below";
  EXPECT_EQ(judge({0.8, 0.8, 0.8}, {1, 1, 1}, 0.85, 0.95, 0.01).ratio, 0.85);
}

TEST(statistics, zeros_are_never_judged) {
  EXPECT_EQ(judge({1e-9, 1e-9, 1e-9}, {1, 1, 1}, 0, 0.95, 0.01).outcome, difference::none) << "rounded to 0";
  EXPECT_EQ(judge_by_medians({0, 0, 0}, {1, 1, 1}, 0.95, 0.01).outcome, difference::none);
}

}  // namespace
}  // namespace tarn::cli
