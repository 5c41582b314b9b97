// SPDX-License-Identifier: MIT
// clock_price: the clock's periods are chosen so that its samples take at most 0.4 % of the processor time, 1 % at first.
#include "profiler/collect/clock_price.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tarn::profiler {
namespace {

TEST(clock_price, all_samples_take_a_known_part_of_the_time_at_most) {
  for (const double price : {0.0, 100.0, 1000.0, 2500.0, 16'000.0, 200'000.0}) {
    const clock_periods periods = clock_periods_for(price);
    EXPECT_GE(periods.later, 499'000U) << "never more than about 2,000 samples a second";
    EXPECT_LE(price / static_cast<double>(periods.later), 0.00401) << price;
    EXPECT_GE(periods.first, 199'000U);
    EXPECT_LE(periods.first, periods.later);
    EXPECT_LE(price / static_cast<double>(periods.first), 0.01001) << price;
  }
}

TEST(clock_price, an_impossible_price_leaves_ten_samples_a_second) {
  EXPECT_LE(clock_periods_for(1e12).first, 100'000'000U);
  EXPECT_LE(clock_periods_for(std::numeric_limits<double>::quiet_NaN()).later, 100'000'000U);
}

TEST(clock_price, of_this_machine) {
  const double price = clock_sample_price();
  if (price == 0) GTEST_SKIP() << "perf_event_open is refused, or a sample costs too little to be measured";
  EXPECT_GT(price, 50);
  EXPECT_LT(price, 50'000);  // half of the period that is tried
}

}  // namespace
}  // namespace tarn::profiler
