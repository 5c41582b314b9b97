// SPDX-License-Identifier: MIT
// The parts of resident memory, by place and by file.
#include "profiler/analyze/memory_kinds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tarn::profiler {
namespace {

TEST(memory_kinds, are_all_the_parts_of_a_row) {
  memory_row row;
  double value = 1;
  for (const memory_kind& each : memory_kinds) row.*each.member = value *= 2;
  EXPECT_EQ(row.sum(), 2 * value - 2);
  for (const memory_kind& each : memory_kinds) {
    const auto* const column = std::find_if(memory_columns.begin(), memory_columns.end(),
                                            [&each](const auto& one) { return one.member == each.member; });
    EXPECT_STREQ(column->name, each.name);
  }
}

TEST(memory_kinds, parts_of_one_place_are_one_and_the_largest_comes_first) {
  profile p;
  p.stacks = {{}, {0, 0x10}, {0, 0x20}, {0, 0x30}};
  p.symbols[0x10] = p.symbols[0x20] = {{"f", "a.cpp", 3, false}};
  p.symbols[0x30] = {{"f", "a.cpp", 4, false}};
  p.sites.resize(3);
  for (std::uint32_t index = 0; index < 3; ++index) p.sites[index].stack = index + 1;
  p.memory.parts = {{5, "live", "", 1, 10, 4}, {5, "live", "", 2, 20, 5},           {5, "live", "", 3, 25, 0},
                    {5, "live", "", 0, 7, 0},  {5, "files", "/lib/a.so", 0, 50, 0}, {9, "live", "", 1, 99, 0},
                    {5, "live", "", 77, 3, 0}};
  memory_row row;
  row.time_ns = 5;
  const std::vector<placed_memory> live = placed_parts(p, row, memory_kinds[0]);
  ASSERT_EQ(live.size(), 3U);
  EXPECT_EQ(live[0].where.function, "f");
  EXPECT_EQ(live[0].where.line, 3U);
  EXPECT_EQ(live[0].bytes, 30);
  EXPECT_EQ(live[0].variance, 9);
  EXPECT_EQ(live[1].bytes, 25);
  EXPECT_EQ(live[2].where.function, "[all smaller ones]") << "and what names a site that is not there";
  EXPECT_EQ(live[2].bytes, 10);
  const std::vector<placed_memory> files = placed_parts(p, row, memory_kinds[4]);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].where.function, "/lib/a.so");
  row.time_ns = 6;
  EXPECT_TRUE(placed_parts(p, row, memory_kinds[0]).empty());
}

// In mode faults no block is known: nobody may read that malloc keeps what the program uses.
TEST(memory_kinds, where_no_block_is_known_nothing_is_called_kept) {
  profile p;
  p.memory.parts = {{5, "kept", "[near no live block]", 0, 10, 0}};
  memory_row row;
  row.time_ns = 5;
  const memory_kind& kept = memory_kinds[2];
  EXPECT_STREQ(text_of(kept, p), kept.text);
  EXPECT_EQ(placed_parts(p, row, kept).size(), 1U);
  p.mode = profile_mode::faults;
  EXPECT_NE(std::string(text_of(kept, p)).find("live and free blocks"), std::string::npos);
  EXPECT_TRUE(placed_parts(p, row, kept).empty());
}

}  // namespace
}  // namespace tarn::profiler
