// SPDX-License-Identifier: MIT
// A site's part of all page faults, and its margin, from sampled pages.
#include "profiler/collect/fault_parts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace {

using namespace tarn::profiler;

constexpr double per_sample = 128;

fault_parts parts(int count, double each) {
  fault_parts made;
  for (int part = 0; part < count; ++part) made.add(each);
  return made;
}

double margin_of_estimate(const estimate& of) { return 1.96 * std::sqrt(of.variance); }

TEST(fault_parts, the_sites_shares_add_up_to_all_faults) {
  const fault_parts one = parts(30, 128);
  const fault_parts other = parts(10, 128);
  fault_parts all = one;
  all.add(other);
  EXPECT_DOUBLE_EQ(all.of_site(one, 4000, per_sample).value, 3000);
  EXPECT_DOUBLE_EQ(all.of_site(other, 4000, per_sample).value, 1000);
}

// The site has a quarter of all fresh pages; one page in 128 is sampled.
TEST(fault_parts, the_true_share_is_within_the_margin_in_95_of_100_cases) {
  constexpr int pages = 6400;
  std::uint64_t seed = 7;
  const auto draw = [&seed] {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return seed >> 33;
  };
  int inside = 0;
  for (int round = 0; round < 1000; ++round) {
    fault_parts all;
    fault_parts mine;
    for (int page = 0; page < pages; ++page) {
      if (draw() % 128 != 0) continue;
      all.add(128);
      if (page % 4 == 0) mine.add(128);
    }
    const estimate found = all.of_site(mine, pages, per_sample);
    if (std::abs(found.value - pages / 4.0) <= margin_of_estimate(found)) ++inside;
  }
  // If the true rate is 0.95, fewer than 927 of 1,000 rounds are inside with probability 0.00065 (binomial
  // distribution).
  EXPECT_GE(inside, 927);
}

TEST(fault_parts, the_margin_of_a_site_without_samples_is_that_of_one_sample) {
  const fault_parts all = parts(31, 128);
  const estimate none = all.of_site({}, 31 * 128, per_sample);
  EXPECT_EQ(none.value, 0);
  EXPECT_NEAR(margin_of_estimate(none), 1.96 * 124, 1);
}

TEST(fault_parts, more_samples_than_pages_do_not_narrow_the_margin) {
  fault_parts all = parts(5000, 128);
  const fault_parts mine = all;
  const estimate found = all.of_site(mine, 130, per_sample);
  EXPECT_DOUBLE_EQ(found.value, 130);
  EXPECT_GT(margin_of_estimate(found), 100) << "130 pages can give one or two independent samples";
  EXPECT_LE(margin_of_estimate(found), 130);
}

TEST(fault_parts, without_samples_the_margin_is_all_faults) {
  const estimate found = fault_parts{}.of_site({}, 10, per_sample);
  EXPECT_EQ(found.value, 0);
  EXPECT_DOUBLE_EQ(margin_of_estimate(found), 10);
}

}  // namespace
