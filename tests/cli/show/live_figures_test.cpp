// SPDX-License-Identifier: MIT
// Figures of the live views without their unit, and growth per minute.
#include "cli/show/live_figures.hpp"

#include <gtest/gtest.h>

namespace tarn::cli {
namespace {

constexpr double live_mib = 1 << 20;

TEST(live_figures, one_decimal_and_never_a_false_nothing) {
  EXPECT_EQ(show_percent(0.316), "31.6");
  EXPECT_EQ(show_percent(1e-6), "<0.1");
  EXPECT_EQ(show_percent(0), "0");
  EXPECT_EQ(show_percent(12.34), "1,234");
  EXPECT_EQ(show_mib(1.5 * live_mib), "1.5");
  EXPECT_EQ(show_mib(999.96 * live_mib), "1,000");
}

TEST(live_figures, growth_has_a_sign) {
  EXPECT_EQ(show_growth(12.1 * live_mib), "+12.1");
  EXPECT_EQ(show_growth(-2048 * live_mib), "-2,048");
  EXPECT_EQ(show_growth(0.01 * live_mib), "0");
  EXPECT_EQ(show_growth(std::nullopt), "-");
}

TEST(live_figures, growth_forgets_how_the_program_started) {
  growth_log log;
  double bytes = 0;
  for (int second = 1; second <= 100; ++second) {
    bytes += second < 4 ? 1000 : 10;  // a start, then a leak of 600 a minute
    log.add(second, {{7, bytes}});
    const auto growth = log.per_minute(second, 7, bytes);
    EXPECT_EQ(growth.has_value(), second >= 3) << second;
    if (second >= 12) {
      EXPECT_DOUBLE_EQ(*growth, 600) << second;
    }
  }
  EXPECT_DOUBLE_EQ(log.per_minute(100, {{7, bytes}}).value(), 600);
  // What was not there grew from nothing.
  EXPECT_GT(log.per_minute(100, 8, 1000).value(), 0);
}

}  // namespace
}  // namespace tarn::cli
