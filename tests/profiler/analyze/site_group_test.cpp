// SPDX-License-Identifier: MIT
// Sites that one change of the code would affect, and the figures of their group.
#include "profiler/analyze/site_group.hpp"

#include <gtest/gtest.h>

#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

TEST(site_group, memory_that_the_program_maps_itself_is_not_refaulted) {
  small_program program;
  site& mapped = program.add({"new_arena", "main"}, 1 << 20, 80);
  mapped.figures.faults = mapped.figures.fault_pages = 80 * 256;
  const std::vector<site_group> malloced = group_sites(program.p);
  EXPECT_EQ(malloced.at(0).again(4096), 70 * 256);
  mapped.figures.peak_bytes = 0;
  mapped.figures.maps = 80;
  mapped.figures.mapped_bytes = 80.0 * (1 << 20);
  const std::vector<site_group> groups = group_sites(program.p);
  EXPECT_EQ(groups.at(0).again(4096), 0);
  EXPECT_EQ(groups.at(0).pages(), 80 * 256);
}

TEST(site_group, paths_to_one_place_are_one_group) {
  small_program program;
  program.add({"make()", "a()"}, 64, 100);
  program.add({"make()", "b()"}, 64, 300);
  for (auto& [address, frames] : program.p.symbols) {
    if (frames[0].function == "make()") frames[0].line = 7;
  }
  const std::vector<site_group> groups = group_sites(program.p);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].sites.size(), 2U);
  EXPECT_DOUBLE_EQ(groups[0].sum.allocations, 400);
  EXPECT_DOUBLE_EQ(groups[0].sizes[0].count, 400);
}

TEST(site_group, types_of_one_place_are_separate_groups) {
  small_program program;
  program.add({"make()"}, 64, 100).type = "order";
  site other = program.p.sites[0];
  other.type = "trade";
  program.p.sites.push_back(other);
  const std::vector<site_group> groups = group_sites(program.p);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].type, "order");
  EXPECT_EQ(groups[1].type, "trade");
}

TEST(site_group, without_a_call_path_it_has_no_place) {
  small_program program;
  program.add({}, 64, 100);
  const std::vector<site_group> groups = group_sites(program.p);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(say_place(groups[0].place), "[no call path]");
  EXPECT_TRUE(groups[0].functions.empty());
  EXPECT_TRUE(group_sites(profile()).empty());
}

TEST(site_group, its_functions_reach_from_the_allocator_to_the_caller_of_its_place) {
  small_program program;
  program.add({"std::vector<int>::reserve(unsigned long)", "fill()", "caller()", "main"}, 64, 100);
  const site_group group = group_sites(program.p).at(0);
  EXPECT_EQ(group.functions,
            (std::vector<std::string>{"std::vector<int>::reserve(unsigned long)", "fill()", "caller()"}));
  EXPECT_TRUE(group.in_array_container());
  EXPECT_EQ(say_place(group.place), "/src/p.cpp:4 fill()");
}

TEST(site_group, mallocs_headers_and_untouched_pages_are_no_refaults) {
  site_group group;
  group.sum.faults = 100;
  group.sum.fault_pages = 1000;
  group.sum.peak_bytes = 100 * 4096;
  EXPECT_EQ(group.again(4096), 900);
  group.sum.checked_bytes = 100;
  group.sum.resident_bytes = 50;
  EXPECT_EQ(group.again(4096), 950) << "only half of the memory held was touched";
  group.sum.resident_bytes = 200;
  EXPECT_EQ(group.touched_part(), 1);
  group.sum.bytes = 1000;
  group.sum.allocations = 10;
  group.sum.usable_bytes = 1920;
  EXPECT_EQ(group.chunk_part(), 2);
  EXPECT_EQ(group.again(4096), 800);
  group.sum.usable_bytes = 0;
  EXPECT_EQ(group.chunk_part(), 1) << "the usable size is not known";
  EXPECT_EQ(group.again(4096, 1e9), 0);
}

TEST(site_group, the_size_of_a_page_is_a_positive_number) {
  profile p;
  EXPECT_EQ(page_bytes_of(p), 4096);
  p.meta = {{"page_bytes", 16384}};
  EXPECT_EQ(page_bytes_of(p), 16384);
  p.meta["page_bytes"] = 0;
  EXPECT_EQ(page_bytes_of(p), 4096);
}

}  // namespace
}  // namespace tarn::profiler
