// SPDX-License-Identifier: MIT
// Two sites as one: what is added up, and what is not.
#include "profiler/model/site_sum.hpp"

#include <gtest/gtest.h>

#include <map>

#include "profiler/model/figure_columns.hpp"

namespace tarn::profiler {
namespace {

using counts = std::map<std::uint64_t, double>;

counts counts_of(const site& one) {
  counts found;
  for (const size_count& each : one.sizes) found[each.size] += each.count;
  return found;
}

TEST(site_sum, figures_are_added_up_and_of_peaks_the_larger_stays) {
  site_figures into, from;
  double value = 1;
  for (const figure_column& each : figure_columns) {
    into.*each.member = value;
    from.*each.member = 100 - value;
    ++value;
  }
  add_figures(into, from);
  EXPECT_EQ(into.peak_bytes, 93);
  EXPECT_EQ(into.bytes_at_peak, 92);
  for (const figure_column& each : figure_columns) {
    EXPECT_TRUE(is_peak(each.member) || into.*each.member == 100) << each.name;
  }
}

TEST(site_sum, only_the_state_of_a_moment_ends_with_its_process) {
  std::string states;
  for (const counter_column& each : counter_columns) {
    if (!is_running_total(each.member)) states += std::string(each.name) + " ";
  }
  EXPECT_EQ(states, "resident_bytes live_bytes live ");
}

TEST(site_sum, exact_sizes_stay_exact_and_are_sorted_by_count) {
  site into, from;
  into.sizes = {{64, 5, true}, {10, 3, true}};
  from.sizes = {{10, 4, true}, {7, 6, true}};
  add_site(into, from);
  ASSERT_EQ(into.sizes.size(), 3U);
  EXPECT_EQ(into.sizes[0].size, 10U);
  EXPECT_EQ(into.sizes[0].count, 7);
  EXPECT_EQ(into.sizes[1].size, 7U);
  EXPECT_EQ(into.sizes[2].size, 64U);
  EXPECT_TRUE(into.sizes[2].exact);
}

TEST(site_sum, one_list_of_powers_of_two_makes_the_sum_one) {
  for (const bool coarse_first : {false, true}) {
    site exact, coarse;
    exact.sizes = {{0, 1, true}, {1, 1, true}, {127, 1, true}, {128, 1, true}};
    coarse.sizes = {{64, 10, false}};
    site into = coarse_first ? coarse : exact;
    add_site(into, coarse_first ? exact : coarse);
    EXPECT_EQ(counts_of(into), (counts{{1, 2}, {64, 11}, {128, 1}}));
    for (const size_count& each : into.sizes) EXPECT_FALSE(each.exact);
  }
}

TEST(site_sum, lifetimes_of_equal_time_and_size_are_one) {
  site into, from;
  into.lifetimes = {{3, 4, 1, 16}};
  from.lifetimes = {{3, 4, 2, 40}, {3, 5, 1, 32}, {4, 4, 1, 16}};
  add_site(into, from);
  ASSERT_EQ(into.lifetimes.size(), 3U);
  EXPECT_EQ(into.lifetimes[0].count, 3);
  EXPECT_EQ(into.lifetimes[0].bytes, 56);
}

TEST(site_sum, threads_of_another_process_are_other_threads) {
  site into, from;
  into.threads = {{0, 0, 1, 8}};
  from.threads = {{0, 0, 2, 16}};
  add_site(into, from);
  ASSERT_EQ(into.threads.size(), 2U);
  EXPECT_EQ(into.threads[1].count, 2);
}

TEST(site_sum, the_strongest_evidence_counts) {
  const auto sum = [](type_evidence left, type_evidence right) {
    site into, from;
    into.evidence = left;
    from.evidence = right;
    add_site(into, from);
    return into.evidence;
  };
  using enum type_evidence;
  EXPECT_EQ(sum(none, none), none);
  EXPECT_EQ(sum(none, vtable), vtable);
  EXPECT_EQ(sum(vtable, none), vtable);
  EXPECT_EQ(sum(vtable, allocator), allocator);
  EXPECT_EQ(sum(allocator, constructor), allocator);
}

}  // namespace
}  // namespace tarn::profiler
