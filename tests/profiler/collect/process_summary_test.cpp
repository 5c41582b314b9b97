// SPDX-License-Identifier: MIT
// The totals of processes, and of those that are too small for a file of their own.
#include "profiler/collect/process_summary.hpp"

#include <gtest/gtest.h>

#include "profiler/collect/small_processes.hpp"

namespace tarn::profiler {
namespace {

profile process(const std::string& command, double bytes) {
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
  profile p = process("cc1", 10);
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

TEST(small_processes, those_of_one_name_are_one_process) {
  small_processes all;
  EXPECT_TRUE(all.empty());
  for (const char* command : {"cc1", "as", "cc1"}) {
    const profile p = process(command, 10);
    all.add(p, summary_of(p));
  }
  ASSERT_EQ(all.groups().size(), 2U);
  const process_summary& first = all.groups()[0];
  EXPECT_EQ(first.command, "cc1");
  EXPECT_EQ(first.images, 2);
  EXPECT_EQ(first.bytes, 40);
  EXPECT_EQ(first.faults, 10);
  EXPECT_EQ(first.cpu_ns, 3000);
  EXPECT_EQ(first.charged.malloc_ns, 40);
  EXPECT_EQ(first.process, 0U) << "several processes";
  EXPECT_TRUE(first.arguments.empty());
  EXPECT_EQ(all.groups()[1].process, 7U) << "a single process keeps what identifies it";
  EXPECT_EQ(all.groups()[1].arguments.size(), 2U);
  EXPECT_EQ(all.take().processes.size(), 2U);
}

TEST(small_processes, after_256_names_the_others_are_one_group) {
  small_processes all;
  const auto add = [&all](const std::string& command) {
    const profile p = process(command, 1);
    all.add(p, summary_of(p));
  };
  for (int number = 0; number < 300; ++number) add("p" + std::to_string(number));
  add("p7");
  ASSERT_EQ(all.groups().size(), 257U);
  EXPECT_EQ(all.groups()[256].command, "other programs");
  EXPECT_EQ(all.groups()[256].images, 44);
  EXPECT_EQ(all.groups()[7].images, 2);
}

}  // namespace
}  // namespace tarn::profiler
