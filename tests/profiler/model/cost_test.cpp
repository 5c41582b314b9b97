// SPDX-License-Identifier: MIT
// What memory costs, from figures and prices.
#include <gtest/gtest.h>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {
namespace {

profile priced() {
  profile p;
  p.prices = {1000, 52100, 9000, 70, 200, 20};
  p.stacks.emplace_back();
  return p;
}

TEST(cost, small_pages_huge_pages_and_what_lies_between) {
  profile p = priced();
  site_figures f{.faults = 10, .fault_pages = 10, .malloc_ns = 500};
  EXPECT_DOUBLE_EQ(cost_of(p, f).malloc_ns, 500);
  EXPECT_DOUBLE_EQ(cost_of(p, f).fault_ns, 10000);
  EXPECT_DOUBLE_EQ(cost_of(p, f).unmap_ns, 700);
  EXPECT_DOUBLE_EQ(cost_of(p, f).hidden(), 10700);
  EXPECT_DOUBLE_EQ(cost_of(p, f).total(), 11200);
  f.faults = 1;
  f.fault_pages = 512;
  EXPECT_DOUBLE_EQ(cost_of(p, f).fault_ns, 52100);
  f.fault_pages = 16;
  EXPECT_DOUBLE_EQ(cost_of(p, f).fault_ns, 1000 + 15 * 100.0);
  p.prices.huge_fault = 0;  // not measured: the price of zeroing is used
  EXPECT_DOUBLE_EQ(cost_of(p, f).fault_ns, 1000 + 15 * 200.0);
}

TEST(cost, all_is_the_sites_and_the_faults_of_no_site) {
  profile p = priced();
  p.sites.resize(2);
  p.sites[0].figures.faults = p.sites[0].figures.fault_pages = 3;
  p.sites[1].figures.malloc_ns = 40;
  p.other_faults = 5;
  p.unseen_faults = 2;
  const cost all = cost_of_all(p);
  EXPECT_DOUBLE_EQ(all.malloc_ns, 40);
  EXPECT_DOUBLE_EQ(all.fault_ns, 10000);
  EXPECT_DOUBLE_EQ(all.unmap_ns, 700);
}

}  // namespace
}  // namespace tarn::profiler
