// SPDX-License-Identifier: MIT
// Names of memory regions by address, while regions replace each other.
#include "profiler/collect/memory_regions.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(memory_regions, names_what_lies_at_an_address) {
  memory_regions regions;
  EXPECT_EQ(regions.at(0x1000), "[anonymous]");
  regions.note(0x1000, 0x3000, "/usr/lib/a.so");
  EXPECT_EQ(regions.at(0xfff), "[anonymous]");
  EXPECT_EQ(regions.at(0x1000), "/usr/lib/a.so");
  EXPECT_EQ(regions.at(0x2fff), "/usr/lib/a.so");
  EXPECT_EQ(regions.at(0x3000), "[anonymous]");
  regions.note(0x5000, 0x5000, "/nothing");
  EXPECT_EQ(regions.at(0x5000), "[anonymous]");
}

TEST(memory_regions, anon_and_empty_names_are_anonymous_memory) {
  memory_regions regions;
  regions.note(0x1000, 0x2000, "//anon");
  regions.note(0x2000, 0x3000, "");
  regions.note(0x3000, 0x4000, "[heap]");
  EXPECT_EQ(regions.at(0x1000), "[anonymous]");
  EXPECT_EQ(regions.at(0x2000), "[anonymous]");
  EXPECT_EQ(regions.at(0x3000), "[heap]");
}

TEST(memory_regions, the_newest_wins_and_leaves_what_it_does_not_cover) {
  memory_regions regions;
  regions.note(0x1000, 0x9000, "/old");
  regions.note(0x3000, 0x5000, "/inside");
  EXPECT_EQ(regions.at(0x2fff), "/old");
  EXPECT_EQ(regions.at(0x3000), "/inside");
  EXPECT_EQ(regions.at(0x5000), "/old");
  regions.note(0x4000, 0x6000, "/across");
  EXPECT_EQ(regions.at(0x3fff), "/inside");
  EXPECT_EQ(regions.at(0x4000), "/across");
  EXPECT_EQ(regions.at(0x6000), "/old");
  regions.note(0x1000, 0xa000, "/all");
  for (const std::uint64_t address : {0x1000, 0x3000, 0x5fff, 0x9fff}) EXPECT_EQ(regions.at(address), "/all");
  regions.note(0x0000, 0x2000, "/front");
  EXPECT_EQ(regions.at(0x1fff), "/front");
  EXPECT_EQ(regions.at(0x2000), "/all");
}

TEST(memory_regions, a_stack_grows_below_its_mapping) {
  memory_regions regions;
  regions.note(0x7fff'0000'0000, 0x7fff'0002'0000, "[stack]");
  EXPECT_EQ(regions.at(0x7ffe'ffff'f000), "[stack]");
  EXPECT_EQ(regions.at(0x7ffe'f000'0000), "[anonymous]");
  regions.note(0x7ffe'ffff'0000, 0x7ffe'ffff'f000, "/mapped/below");
  EXPECT_EQ(regions.at(0x7ffe'ffff'0000), "/mapped/below");
}

}  // namespace
}  // namespace tarn::profiler
