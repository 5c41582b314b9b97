// SPDX-License-Identifier: MIT
// Rows from a file that may hold anything: each member stays within its range.
#include "profiler/model/table_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "../../refusal.hpp"

namespace tarn::profiler {
namespace {

TEST(table_rows, figures_and_variances_have_a_largest_value) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(figure_of(1e15), 1e15);
  EXPECT_EQ(variance_of(1e30), 1e30);
  for (const double value : {1.1e15, -1.0, -infinity, infinity, std::nan("")}) EXPECT_EQ(figure_of(value), 0);
  for (const double value : {1.1e30, -1.0, -infinity, infinity, std::nan("")})
    EXPECT_EQ(variance_of(value), 0);
}

TEST(table_rows, numbers_too_large_for_their_member_are_the_largest) {
  table rows{"site_lifetimes", 1, {}, true};
  rows.columns = {
      {"lifetime", integers{300}}, {"size", integers{255}}, {"count", reals{2}}, {"bytes", reals{1e99}}};
  lifetime_count one;
  read_columns<lifetime_count>(rows, [&one](std::size_t) -> auto& { return one; });
  EXPECT_EQ(one.lifetime, 255);
  EXPECT_EQ(one.size, 255);
  EXPECT_EQ(one.count, 2);
  EXPECT_EQ(one.bytes, 0);
}

TEST(table_rows, reals_of_a_later_version_are_0_and_other_columns_are_required) {
  table rows{"site_sizes", 1, {{"size", integers{64}}, {"exact", integers{7}}}, true};
  size_count one{1, 5, false};
  read_columns<size_count>(rows, [&one](std::size_t) -> auto& { return one; });
  EXPECT_EQ(one.count, 0);
  EXPECT_TRUE(one.exact);
  rows.columns.pop_back();
  EXPECT_EQ(
      testing_support::refusal_of<profile_error>(
          [&] { read_columns<size_count>(rows, [&one](std::size_t) -> auto& { return one; }); }),
      "the profile's table 'site_sizes' has no column 'exact' of whole numbers; it may be of another version "
      "of tarn: make a new one with tarn profile");
}

TEST(table_rows, rows_come_back_from_their_columns) {
  const std::vector<source_frame> frames = {{"f", "a.cpp", 3, true}, {"g", "", 4294967295U, false}};
  table rows = new_table("symbols", frames.size(), true);
  add_columns<source_frame>(rows, 0, [&](std::size_t row) -> auto& { return frames[row]; });
  std::vector<source_frame> again(2);
  read_columns<source_frame>(rows, [&](std::size_t row) -> auto& { return again[row]; });
  for (std::size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(again[row].function, frames[row].function);
    EXPECT_EQ(again[row].file, frames[row].file);
    EXPECT_EQ(again[row].line, frames[row].line);
    EXPECT_EQ(again[row].inlined, frames[row].inlined);
  }
}

TEST(table_rows, no_two_columns_have_one_name) {
  std::set<std::string> names;
  for (const figure_column& each : figure_columns) EXPECT_TRUE(names.insert(each.name).second) << each.name;
  names.clear();
  for (const counter_column& each : counter_columns) EXPECT_TRUE(names.insert(each.name).second) << each.name;
}

}  // namespace
}  // namespace tarn::profiler
