// SPDX-License-Identifier: MIT
// Processes that are too small for a file of their own, by their names.
#include "profiler/collect/process_summary.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

profile small_process(const std::string& command, double bytes) {
  profile p;
  p.meta = {{"pid", 7}, {"command", command}, {"arguments", {command, "-c"}}};
  p.stacks.emplace_back();
  p.sites.resize(1);
  p.sites[0].figures.bytes = p.sites[0].figures.malloc_ns = bytes;
  p.counters.resize(1);
  p.counters[0].faults = 5;
  p.counters[0].user_ns = 1500;
  return p;
}

TEST(small_processes, those_of_one_name_are_one_process) {
  small_processes all;
  EXPECT_TRUE(all.empty());
  for (const char* command : {"cc1", "as", "cc1"}) {
    const profile p = small_process(command, 20);
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
    const profile p = small_process(command, 1);
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
