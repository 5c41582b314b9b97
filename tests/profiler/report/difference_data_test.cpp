// SPDX-License-Identifier: MIT
// What changed, as the page gets it: sums agree, what changed most comes first, and all else is one row.
#include "profiler/report/difference_data.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

difference changes() {
  return difference::between(synthetic_profile({.sites = 230, .seed = 2}), synthetic_profile());
}

double sum_of_values(const nlohmann::json& values) {
  double sum = 0;
  for (const nlohmann::json& one : values) sum += one.get<double>();
  return sum;
}

TEST(difference_data, has_the_figures_of_the_difference) {
  const difference found = changes();
  const nlohmann::json data = difference_data(found);
  EXPECT_EQ(data["recordings"], nlohmann::json({1, 1}));
  ASSERT_EQ(data["metrics"].size(), metric_count);
  for (std::size_t index = 0; index < metric_count; ++index) {
    const std::string name = data["metrics"][index]["name"];
    EXPECT_EQ(name, metrics()[index].name);
    EXPECT_NEAR(data["totals"][name]["after"][0].get<double>(), found.totals[index].after, 0.5) << name;
    EXPECT_EQ(data["sites"]["values"][name]["before"].size(), found.sites.size());
  }
  EXPECT_EQ(data["others"]["count"], 0);
}

TEST(difference_data, rows_beyond_the_limit_are_one_sum) {
  const difference found = changes();
  const nlohmann::json whole = difference_data(found);
  const nlohmann::json few = difference_data(found, 10);
  EXPECT_EQ(few["sites"]["line"].size(), 10U);
  EXPECT_EQ(few["others"]["count"], found.sites.size() - 10);
  for (const char* name : {"cost", "bytes", "allocations"}) {
    for (const char* side : {"before", "after"}) {
      EXPECT_NEAR(sum_of_values(few["sites"]["values"][name][side]) +
                      sum_of_values(few["others"]["values"][name][side]),
                  sum_of_values(whole["sites"]["values"][name][side]), 200)
          << name << " " << side;
    }
  }
  const nlohmann::json& row = whole["sites"];
  EXPECT_EQ(few["sites"]["line"][0], row["line"][0]) << "the order is the same";
}

}  // namespace
}  // namespace tarn::profiler
