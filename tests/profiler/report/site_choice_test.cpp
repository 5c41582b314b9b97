// SPDX-License-Identifier: MIT
// Which sites a report names.
#include "profiler/report/site_choice.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tarn::profiler {
namespace {

using sites = std::vector<std::uint32_t>;

// Sites of these costs.
struct priced_sites {
  explicit priced_sites(const std::vector<double>& prices) {
    for (const double each : prices) {
      p.sites.emplace_back();
      costs.emplace_back().malloc_ns = each;
    }
  }

  sites chosen(const choice_limits& limits) const { return chosen_sites(p, costs, limits); }

  profile p;
  std::vector<cost> costs;
};

TEST(site_choice, few_sites_are_all_named_by_cost) {
  EXPECT_EQ(priced_sites({1, 0, 5, 5}).chosen({0.999, 0.99, 4, 100}), (sites{2, 3, 0, 1}));
  EXPECT_TRUE(priced_sites({}).chosen({}).empty());
}

TEST(site_choice, of_many_those_that_cover_the_share_of_the_cost) {
  const priced_sites many({1, 50, 9, 40});
  EXPECT_EQ(many.chosen({0.9, 0.99, 1, 100}), (sites{1, 3}));
  EXPECT_EQ(many.chosen({0.91, 0.99, 1, 100}), (sites{1, 3, 2}));
  EXPECT_EQ(many.chosen({0.5, 0.99, 3, 100}), (sites{1, 3, 2})) << "at least three";
  EXPECT_EQ(many.chosen({1, 0.99, 3, 4}), (sites{1, 3})) << "half of four places are for the cost";
}

TEST(site_choice, a_site_is_named_for_any_of_its_figures) {
  for (double site_figures::*const member :
       {&site_figures::bytes, &site_figures::allocations, &site_figures::bytes_at_peak,
        &site_figures::live_bytes, &site_figures::checked_bytes}) {
    priced_sites many({100, 1, 1, 1});
    many.p.sites[2].figures.*member = 10;
    EXPECT_EQ(many.chosen({0.5, 0.99, 1, 100}), (sites{0, 2}));
  }
  priced_sites touched({100, 1, 1, 1});
  touched.p.sites[2].figures.checked_bytes = touched.p.sites[2].figures.resident_bytes = 10;
  EXPECT_EQ(touched.chosen({0.5, 0.99, 1, 100}), (sites{0})) << "no byte is untouched";
}

TEST(site_choice, figures_that_make_no_sense_count_as_0) {
  priced_sites many({std::numeric_limits<double>::infinity(), 7, -3});
  EXPECT_EQ(many.chosen({0.9, 0.99, 1, 100}), (sites{1}));
}

}  // namespace
}  // namespace tarn::profiler
