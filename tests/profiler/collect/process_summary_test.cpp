// SPDX-License-Identifier: MIT
// The totals of a process.
#include "profiler/collect/process_summary.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

profile profile_of_process(const std::string& command, double bytes) {
  profile p;
  p.meta = {{"pid", 7}, {"parent", 1}, {"command", command}, {"arguments", {command, "-c"}}};
  p.stacks.emplace_back();
  p.sites.resize(2);
  for (site& each : p.sites) each.figures.bytes = each.figures.malloc_ns = bytes;
  p.sites[0].figures.allocations = 3;
  p.counters.resize(2);
  p.counters[1].faults = 5;
  p.counters[1].user_ns = 1000;
  p.counters[1].system_ns = 500;
  return p;
}

TEST(process_summary, has_the_totals_of_all_sites_and_of_the_last_counters) {
  profile p = profile_of_process("cc1", 10);
  p.meta["small_children"] = {{"processes", 2}};
  const process_summary summary = summary_of(p);
  EXPECT_EQ(summary.process, 7U);
  EXPECT_EQ(summary.parent, 1U);
  EXPECT_EQ(summary.command, "cc1");
  EXPECT_EQ(summary.arguments, (std::vector<std::string>{"cc1", "-c"}));
  EXPECT_EQ(summary.images, 3) << "itself, and its small children";
  EXPECT_EQ(summary.allocations, 3);
  EXPECT_EQ(summary.bytes, 20);
  EXPECT_EQ(summary.faults, 5);
  EXPECT_EQ(summary.cpu_ns, 1500);
  EXPECT_EQ(summary.charged.malloc_ns, 20);
}

TEST(process_summary, the_program_stands_for_a_missing_name) {
  profile p;
  p.meta = {{"program", "/bin/p"}};
  EXPECT_EQ(summary_of(p).command, "/bin/p");
  EXPECT_EQ(summary_of(p).cpu_ns, 0);
  EXPECT_EQ(summary_of(profile()).images, 1);
}

}  // namespace
}  // namespace tarn::profiler
