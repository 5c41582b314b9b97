// SPDX-License-Identifier: MIT
// The invariants of synthetic_profile.hpp, which other tests rely on.
#include "tests/profiler/synthetic_profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tarn::profiler {
namespace {

void expect_sums(const site& one, std::size_t index) {
  const site_figures& f = one.figures;
  EXPECT_EQ(f.live, f.allocations - f.frees) << index;
  EXPECT_EQ(f.live_bytes, f.bytes - f.freed_bytes) << index;
  EXPECT_LE(f.bytes_at_peak, f.peak_bytes) << index;
  EXPECT_LE(f.live_bytes, f.peak_bytes) << index;
  double allocations = 0, bytes = 0, dead = 0, pairs = 0;
  for (const size_count& each : one.sizes) {
    allocations += each.count;
    if (each.exact) bytes += each.count * static_cast<double>(each.size);
  }
  for (const lifetime_count& each : one.lifetimes) dead += each.count;
  for (const thread_pair& each : one.threads) pairs += each.count;
  EXPECT_EQ(allocations, f.allocations) << index;
  EXPECT_LE(bytes, f.bytes) << index;
  EXPECT_EQ(dead, f.frees) << index;
  EXPECT_EQ(pairs, f.frees) << index;
}

TEST(synthetic_profile, its_figures_agree) {
  const profile p = synthetic_profile();
  ASSERT_EQ(p.sites.size(), 200U);
  EXPECT_GE(p.modules.size(), 12U);
  EXPECT_GE(p.threads.size(), 8U);
  EXPECT_GE(p.counters.size(), 180U);
  double allocations = 0, faults = 0, at_peak = 0, highest = 0;
  std::set<std::string> types;
  std::set<type_evidence> evidence;
  std::size_t deepest = 0;
  for (std::size_t index = 0; index < p.sites.size(); ++index) {
    const site& one = p.sites[index];
    expect_sums(one, index);
    allocations += one.figures.allocations;
    faults += one.figures.faults;
    at_peak += one.figures.bytes_at_peak;
    types.insert(one.type);
    evidence.insert(one.evidence);
    deepest = std::max(deepest, frames_of(p, one.stack).size());
  }
  EXPECT_GE(types.size(), 10U);
  EXPECT_EQ(evidence.size(), 4U);
  EXPECT_GE(deepest, 20U);  // recursion
  EXPECT_EQ(p.counters.back().allocations, allocations);
  EXPECT_EQ(p.counters.back().faults, faults + p.other_faults + p.unseen_faults);
  for (std::size_t row = 1; row < p.counters.size(); ++row) {
    EXPECT_GT(p.counters[row].time_ns, p.counters[row - 1].time_ns);
    EXPECT_GE(p.counters[row].allocations, p.counters[row - 1].allocations);
  }
  for (const counter_row& row : p.counters) highest = std::max(highest, row.live_bytes);
  EXPECT_EQ(highest, at_peak);
}

TEST(synthetic_profile, the_same_every_time) {
  const profile a = synthetic_profile(), b = synthetic_profile();
  EXPECT_EQ(a.sites[77].figures.bytes, b.sites[77].figures.bytes);
  EXPECT_EQ(a.stacks.back().address, b.stacks.back().address);
  synthetic_events one(3), two(3);
  EXPECT_EQ(one.next(500).whole("block"), two.next(500).whole("block"));
}

}  // namespace
}  // namespace tarn::profiler
