// SPDX-License-Identifier: MIT
// metrics: a table shows the figure that each row names, for each member.
#include "engine/metrics.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tarn {
namespace {

struct test_figures {
  std::uint64_t first;
  std::uint64_t second;
};

constexpr metric_of<test_figures> figure_rows[] = {
    {"tarn_x_bytes", metric_kind::gauge, metric_unit::bytes, "Bytes of x", &test_figures::second},
    {"tarn_x_calls", metric_kind::counter, metric_unit::none, "Calls of x", &test_figures::first},
};
using figure_table = metric_table<figure_rows>;

void visit_named(void (*visit)(void* context, const char* name, const test_figures* figures),
                 void* context) noexcept {
  constexpr test_figures a{1, 2};
  constexpr test_figures b{3, 4};
  visit(context, "a", &a);
  visit(context, "b", &b);
}

std::string received(const metric_group& group) {
  std::string out;
  group.visit({[](void* to, const char* member, const std::uint64_t* values) {
                 *static_cast<std::string*>(to) += std::string(member) + ' ' + std::to_string(values[0]) +
                                                   ' ' + std::to_string(values[1]) + '\n';
               },
               &out});
  return out;
}

TEST(metrics, a_table_shows_the_figure_of_each_row) {
  constexpr metric_group group = figure_table::group(
      [](metric_receiver to) {
        figure_table::give(to, "all", test_figures{5, 6});
      },
      "x");
  EXPECT_STREQ(group.label, "x");
  ASSERT_EQ(group.count, 2U);
  EXPECT_STREQ(group.metrics[0].name, "tarn_x_bytes");
  EXPECT_EQ(group.metrics[0].unit, metric_unit::bytes);
  EXPECT_EQ(group.metrics[1].kind, metric_kind::counter);
  EXPECT_STREQ(group.metrics[1].help, "Calls of x");
  EXPECT_EQ(received(group), "all 6 5\n");
}

TEST(metrics, a_function_that_visits_figures_with_names_is_one_of_the_group) {
  constexpr metric_group group = figure_table::group_of<visit_named>("x");
  EXPECT_EQ(received(group), "a 2 1\nb 4 3\n");
}

}  // namespace
}  // namespace tarn
