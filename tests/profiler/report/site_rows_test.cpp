// SPDX-License-Identifier: MIT
// The rows of a report's table of sites add up to the whole profile.
#include "profiler/report/site_rows.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tarn::profiler {
namespace {

// Sites at these addresses, each with this many bytes and ns more than the one before.
profile sites_at(const std::vector<std::uint64_t>& addresses) {
  profile p;
  p.prices.fault = 100;
  p.stacks.emplace_back();
  for (const std::uint64_t address : addresses) {
    p.stacks.push_back({0, address});
    p.symbols[address] = {{"f" + std::to_string(address), "a.cpp", 1, false}};
    site one;
    one.stack = static_cast<std::uint32_t>(p.stacks.size() - 1);
    one.figures.bytes = one.figures.malloc_ns = one.figures.peak_bytes =
        static_cast<double>(p.sites.size() + 1);
    p.sites.push_back(one);
  }
  return p;
}

std::vector<site_row> rows_with(const profile& p, const std::vector<std::uint32_t>& named, std::size_t most) {
  string_table strings;
  path_tree paths(p, strings);
  std::vector<cost> costs;
  for (const site& each : p.sites) costs.push_back(cost_of(p, each.figures));
  return rows_of(p, costs, named, paths, strings, most);
}

TEST(site_rows, others_are_summed_by_place_and_type) {
  profile p = sites_at({1, 2, 2, 3});
  p.other_faults = 5;
  p.unseen_faults = 6;
  const std::vector<site_row> rows = rows_with(p, {3}, 10);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].kind, row_kind::site);
  EXPECT_EQ(rows[0].index, 3U);
  EXPECT_EQ(rows[0].figures.peak_bytes, 4);
  EXPECT_EQ(rows[1].kind, row_kind::rest);
  EXPECT_EQ(rows[1].sites, 2);
  EXPECT_EQ(rows[1].figures.bytes, 2 + 3);
  EXPECT_EQ(rows[1].figures.peak_bytes, 0) << "peaks are not of the same time";
  EXPECT_EQ(rows[2].figures.bytes, 1);
  EXPECT_EQ(rows[3].kind, row_kind::outside);
  EXPECT_EQ(rows[3].figures.faults, 11);
  EXPECT_EQ(rows[3].paid.fault_ns, 1100);
  EXPECT_EQ(rows[3].place, path_tree::no_frame);
}

TEST(site_rows, types_of_one_place_are_separate_groups) {
  profile p = sites_at({2, 2});
  p.sites[0].type = "order";
  EXPECT_EQ(rows_with(p, {}, 10).size(), 3U);
}

TEST(site_rows, the_cheapest_places_are_one_row_without_a_place) {
  const std::vector<site_row> rows = rows_with(sites_at({1, 2, 3, 4}), {}, 1);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].figures.bytes, 4);
  EXPECT_NE(rows[0].place, path_tree::no_frame);
  EXPECT_EQ(rows[1].kind, row_kind::rest);
  EXPECT_EQ(rows[1].place, path_tree::no_frame);
  EXPECT_EQ(rows[1].sites, 3);
  EXPECT_EQ(rows[1].figures.bytes, 1 + 2 + 3);
  EXPECT_EQ(rows[1].paid.malloc_ns, 1 + 2 + 3);
}

TEST(site_rows, negative_and_endless_figures_count_as_0) {
  profile p = sites_at({1, 2});
  p.sites[0].figures.bytes = -1;
  p.sites[1].figures.bytes_variance = std::numeric_limits<double>::infinity();
  p.sites[1].figures.checked_bytes = 1;
  p.sites[1].figures.resident_bytes = 2;
  const std::vector<site_row> rows = rows_with(p, {0, 1}, 10);
  EXPECT_EQ(rows[0].figures.bytes, 0);
  EXPECT_EQ(rows[1].figures.bytes_variance, 0);
  EXPECT_EQ(rows[1].untouched, 0);
}

TEST(site_rows, an_empty_profile_has_the_row_of_what_is_outside) {
  const std::vector<site_row> rows = rows_with(profile(), {}, 10);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].kind, row_kind::outside);
  EXPECT_EQ(rows[0].paid.total(), 0);
}

}  // namespace
}  // namespace tarn::profiler
