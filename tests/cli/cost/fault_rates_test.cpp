// SPDX-License-Identifier: MIT
// The cost of page faults per second, and how it is told.
#include "cli/cost/fault_rates.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tarn::cli {
namespace {

memory_prices some_prices() {
  return {.page_bytes = 4096,
          .huge_page_bytes = 2 << 20,
          .fault_seconds = 1e-6,
          .huge_fault_seconds = 100e-6,
          .zeroing_per_mib = 40e-6};
}

TEST(fault_rates, prices_times_counts) {
  fault_counters difference{.faults = 25610, .huge_faults = 10, .user_seconds = 1, .system_seconds = 0.5};
  const fault_rates rates = rates_of(difference, 2, some_prices());
  EXPECT_DOUBLE_EQ(rates.faults, 12805);
  EXPECT_DOUBLE_EQ(rates.huge_faults, 5);
  EXPECT_DOUBLE_EQ(rates.fresh_bytes, 12800 * 4096.0 + 5 * 2097152.0);
  EXPECT_NEAR(rates.fault_share, 0.0133, 1e-9);
  EXPECT_NEAR(rates.zeroing_share, (50 + 10) * 40e-6, 1e-9);
  EXPECT_DOUBLE_EQ(rates.system_share, 0.25);
}

TEST(fault_rates, counters_that_went_back_count_as_unchanged) {
  fault_counters difference{.faults = -100, .user_seconds = -1};
  const fault_rates rates = rates_of(difference, 1, some_prices());
  EXPECT_EQ(rates.faults, 0);
  EXPECT_EQ(rates.fault_share, 0);
  EXPECT_EQ(rates.user_share, 0);
  EXPECT_EQ(rates_of(difference, 0, some_prices()).faults, 0);
}

TEST(fault_rates, lines) {
  fault_rates rates;
  rates.faults = 12345;
  rates.fault_share = 0.0123;
  rates.zeroing_share = 0.002;
  rates.system_share = 0.034;
  rates.resident_bytes = 100 << 20;
  rates.resident_growth = 3 << 20;
  for (const watched what : {watched::machine, watched::process}) {
    EXPECT_EQ(rates_heading(what).size(), rates_line(3, rates, what).size());
    EXPECT_LE(rates_heading(what).size(), 80U);
  }
  const std::string line = rates_line(3, rates, watched::process);
  for (const char* word : {"     3 ", " 12,345 ", " 1.2 ", " 0.2 ", " 3.4 ", " 100.0 ", " +3.0"}) {
    EXPECT_NE(line.find(word), std::string::npos) << line;
  }
  EXPECT_NE(rates_heading(watched::machine).find("huge/s"), std::string::npos);
  const std::string summary = rates_summary(12, rates);
  EXPECT_NE(summary.find("average of 12 s: 12,345 faults/s"), std::string::npos) << summary;
  EXPECT_NE(summary.find("page faults 1.2 % (zeroing up to 0.2 %)"), std::string::npos) << summary;
  EXPECT_NE(rates_judgement(rates).find("tarn run"), std::string::npos);
  rates.fault_share = 0.009;
  EXPECT_NE(rates_judgement(rates).find("nothing to do"), std::string::npos);
}

TEST(fault_rates, memory_of_a_process_that_grows_does_not_go_back) {
  fault_rates rates{.fault_share = 0.05, .fresh_bytes = 30 << 20};
  rates.resident_growth = 1843.0 * (1 << 20);  // all of it
  EXPECT_NE(rates_judgement(rates).find("grows by 1,843"), std::string::npos) << rates_judgement(rates);
  rates.resident_growth = 100 << 20;  // a small part: most goes back
  EXPECT_NE(rates_judgement(rates).find("tarn run"), std::string::npos);
  rates.fault_share = 0.005;
  EXPECT_NE(rates_judgement(rates).find("tarn attach PID"), std::string::npos);
}

TEST(fault_rates, without_a_price_a_huge_page_costs_its_zeroing) {
  memory_prices prices = some_prices();
  prices.huge_fault_seconds = 0;
  fault_counters difference;
  difference.faults = difference.huge_faults = 10;
  EXPECT_DOUBLE_EQ(rates_of(difference, 1, prices).fault_share, 10 * 2 * 40e-6);
}

TEST(fault_rates, less_than_one_a_second_is_no_whole_number) {
  fault_rates rates;
  rates.faults = 0.25;
  EXPECT_TRUE(rates_summary(4, rates).starts_with("average of 4.0 s: 0.2 faults/s"))
      << rates_summary(4, rates);
  EXPECT_EQ(as_json(rates)["faults_per_second"], 0.25);
}

}  // namespace
}  // namespace tarn::cli
