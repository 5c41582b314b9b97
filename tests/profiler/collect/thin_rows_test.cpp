// SPDX-License-Identifier: MIT
// Histories with every second row removed.
#include "profiler/collect/timeline.hpp"

#include <gtest/gtest.h>

#include "profiler/model/memory_split.hpp"

namespace tarn::profiler {
namespace {

std::vector<double> thinned(const std::vector<double>& resident) {
  std::vector<memory_row> rows;
  for (const double bytes : resident) rows.emplace_back().resident_bytes = bytes;
  thin_rows(rows);
  std::vector<double> left;
  for (const memory_row& row : rows) left.push_back(row.resident_bytes);
  return left;
}

TEST(thin_rows, of_two_neighbours_the_higher_one_stays) {
  using values = std::vector<double>;
  EXPECT_EQ(thinned({9, 1, 2, 4, 3, 0}), (values{9, 2, 4, 0}));
  EXPECT_EQ(thinned({9, 1, 2, 4, 3, 8, 0}), (values{9, 2, 4, 8, 0}));
  EXPECT_EQ(thinned({9, 5, 5, 0}), (values{9, 5, 0}));
  EXPECT_EQ(thinned({1, 2, 3}), (values{1, 2, 3})) << "the first and the last stay";
  EXPECT_EQ(thinned({1}), (values{1}));
}

}  // namespace
}  // namespace tarn::profiler
