// SPDX-License-Identifier: MIT
#include "cli/compare/interleaved_rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace tarn::cli {
namespace {

std::vector<measured_way> ways(std::size_t count) { return std::vector<measured_way>(count, {"way", 0}); }

TEST(interleaved_rounds, each_round_measures_each_way_once_in_a_new_order) {
  interleaved_rounds rounds(ways(6), false, 1);
  std::set<std::vector<std::size_t>> orders;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> order;
    rounds.run_round("round", 20 - round, [&order](std::size_t way) { order.push_back(way); });
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
  }
  EXPECT_GT(orders.size(), 15U) << "720 orders are equally likely";
}

TEST(interleaved_rounds, a_way_that_failed_is_not_measured_again) {
  interleaved_rounds rounds(ways(3), false, 1);
  std::vector<int> measured(3);
  for (int round = 0; round < 4; ++round) {
    rounds.run_round("round", 4 - round, [&](std::size_t way) {
      ++measured[way];
      if (way == 1) rounds.fail(way);
    });
  }
  EXPECT_EQ(measured, (std::vector<int>{4, 1, 4}));
  EXPECT_TRUE(rounds.has_failed(1));
  EXPECT_FALSE(rounds.have_all_failed());
  rounds.fail(0);
  rounds.fail(2);
  EXPECT_TRUE(rounds.have_all_failed());
}

TEST(interleaved_rounds, the_time_left_counts_down_within_a_measurement) {
  EXPECT_DOUBLE_EQ(seconds_left(4, 4, 0), 16);
  EXPECT_DOUBLE_EQ(seconds_left(4, 4, 3), 13);
  EXPECT_DOUBLE_EQ(seconds_left(4, 4, 9), 12) << "a measurement that takes longer";
  EXPECT_DOUBLE_EQ(seconds_left(1, 4, 9), 0);
  EXPECT_DOUBLE_EQ(seconds_left(0, 4, 0), 0) << "not known yet";
}

}  // namespace
}  // namespace tarn::cli
