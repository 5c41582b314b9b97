// SPDX-License-Identifier: MIT
// Figures rounded so that their sum is the rounded sum.
#include "profiler/report/site_rows.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace tarn::profiler {
namespace {

using values = std::vector<std::int64_t>;

TEST(whole_column, values_add_up) {
  whole_column column;
  for (int index = 0; index < 1000; ++index) column.add(0.4);
  EXPECT_EQ(column.total(), 400);
  EXPECT_EQ(std::accumulate(column.values().begin(), column.values().end(), std::int64_t{0}), 400);
}

TEST(whole_column, each_value_is_at_most_1_from_its_figure) {
  whole_column column;
  for (const double each : {0.5, 0.5, 0.5, 1.5, 2.0, 0.0, 0.49}) column.add(each);
  EXPECT_EQ(column.values(), (values{1, 0, 1, 1, 2, 0, 0}));
  EXPECT_EQ(column.total(), 5);
}

TEST(whole_column, figures_that_make_no_sense_count_as_0) {
  const double infinity = std::numeric_limits<double>::infinity();
  whole_column column;
  for (const double each : {-1.0, std::nan(""), infinity, -infinity, 9e15, 8e15}) column.add(each);
  EXPECT_EQ(column.values(), (values{0, 0, 0, 0, 0, 8000000000000000}));
}

}  // namespace
}  // namespace tarn::profiler
