// SPDX-License-Identifier: MIT
// The quantities by which profiles are sorted: their sums and margins.
#include "profiler/export/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

TEST(metrics, sums_are_those_of_the_model) {
  const profile p = synthetic_profile();
  const cost all = cost_of_all(p);
  const double nearly = 1e-6 * all.total();
  EXPECT_NEAR(sum_of(p, *find_metric("cost")), all.total(), nearly);
  EXPECT_NEAR(sum_of(p, *find_metric("malloc")), all.malloc_ns, nearly);
  EXPECT_NEAR(sum_of(p, *find_metric("hidden")), all.hidden(), nearly);
  EXPECT_EQ(sum_of(p, *find_metric("faults")), p.counters.back().faults);
  EXPECT_EQ(sum_of(p, *find_metric("allocations")), p.counters.back().allocations);
  EXPECT_EQ(find_metric("costs"), nullptr);
  EXPECT_EQ(find_metric(""), nullptr);
}

TEST(metrics, margins_are_those_of_the_sampling) {
  profile p;
  p.prices.fault = 100;
  p.fit.malloc = 0.5;
  p.sites.resize(2);
  for (site& each : p.sites) {
    each.figures.allocations_variance = 50;
    each.figures.faults_variance = 9;
    each.figures.malloc_variance = 1600;
  }
  const site_figures& one = p.sites[0].figures;
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("allocations"), one), 1.96 * std::sqrt(50));
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("malloc"), one), 1.96 * 20);
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("hidden"), one), 1.96 * 300);
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("cost"), one), 1.96 * std::sqrt(300 * 300 + 20 * 20));
  EXPECT_EQ(margin_of(p, *find_metric("bytes"), one), 0);
  EXPECT_EQ(margin_of(p, *find_metric("peak"), one), 0);
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("allocations")), 1.96 * 10);
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("cost")), margin_of(cost_of_all(p).variance()));
  // The kernel counts all faults, so their number does not depend on samples.
  p.other_faults = 1;
  EXPECT_EQ(margin_of_sum(p, *find_metric("faults")), 0);
  // If the clock gives three quarters of the sum, the error of the timed calls counts for one quarter.
  p.malloc_time.clock_part = 0.75;
  p.malloc_time.factor = 0.5;
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("malloc")), 1.96 * 0.5 * std::sqrt(3200.0 / 4));
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("malloc"), one), 1.96 * 20);
  // The faults of no site have the margin of those that the sites take.
  p.sites[0].figures.faults = 4;
  const metric_row others = metric_rows(p).back();
  EXPECT_EQ(others.figures(p).faults, 1);
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("faults"), others.figures(p)), 1.96 * std::sqrt(9 + 9))
      << "a site without a fault in the sample may have some, too";
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("cost")), margin_of(cost_of_all(p).variance()));
}

TEST(metrics, each_is_found_by_its_name) {
  EXPECT_EQ(metric_names(), "cost, malloc, hidden, faults, allocations, bytes, live, live_bytes, peak");
  for (const metric& each : metrics()) EXPECT_EQ(find_metric(each.name), &each);
}

TEST(metrics, what_lives_is_a_part_of_all_blocks_and_may_have_no_sample) {
  const profile p;
  const metric& live = *find_metric("live");
  // A sample stands for 4 blocks, and the variance is that of 99 samples and one more.
  site_figures figures{.samples = 99, .allocations = 396, .live = 99, .allocations_variance = 1600};
  EXPECT_DOUBLE_EQ(live.variance(p, figures), 400 + variance_of_none(4));
  figures.live = 500;  // of a file that contradicts itself
  EXPECT_DOUBLE_EQ(live.variance(p, figures), 1600 + variance_of_none(4));
  figures.live = 0;
  EXPECT_DOUBLE_EQ(margin_of(p, live, figures), 3 * 4);
  figures.allocations = 0;
  EXPECT_EQ(live.variance(p, figures), 0);
}

TEST(metrics, a_sum_of_what_lives_has_the_margin_of_none_once) {
  profile p;
  const site_figures figures{
      .samples = 9, .bytes = 900, .live_bytes = 100, .bytes_variance = 1e5, .live_bytes_variance = 1e4};
  p.sites.resize(100);
  for (site& each : p.sites) each.figures = figures;
  const metric& live = *find_metric("live_bytes");
  EXPECT_DOUBLE_EQ(margin_of(p, live, figures), margin_of(1e4 + variance_of_none(100)));
  EXPECT_NEAR(margin_of_sum(p, live), margin_of(1e6 + variance_of_none(110)), 1);
}

TEST(metrics, rows_are_the_sites_and_the_faults_of_none) {
  profile p;
  EXPECT_TRUE(metric_rows(p).empty());
  p.sites.resize(1);
  p.other_faults = 3;
  p.unseen_faults = 4;
  const std::vector<metric_row> rows = metric_rows(p);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].frames(p).at(0).function, "[no call path]");
  EXPECT_EQ(rows[1].frames(p).at(0).function, "[faults outside of allocated memory]");
  EXPECT_EQ(rows[1].figures(p).faults, 3);
  EXPECT_EQ(rows[2].frames(p).at(0).function, "[faults that only the kernel counted]");
  EXPECT_EQ(rows[2].figures(p).fault_pages, 4);
}

}  // namespace
}  // namespace tarn::profiler
