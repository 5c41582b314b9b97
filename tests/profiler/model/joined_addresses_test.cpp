// SPDX-License-Identifier: MIT
// Positions in files have one common address, wherever processes load the files. merge_test.cpp tests whole paths.
#include "profiler/model/joined_addresses.hpp"

#include "profiler/model/script_address.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

// A process with one address in each of these modules, or in none.
profile process(std::vector<module_info> modules, const std::vector<std::uint64_t>& addresses) {
  profile p;
  p.modules = std::move(modules);
  p.stacks.emplace_back();
  for (const std::uint64_t address : addresses) p.stacks.push_back({0, address});
  return p;
}

TEST(joined_addresses, one_file_at_two_addresses) {
  joined_addresses all;
  const auto first = all.take_in(process({{"/lib/a.so", "1", 0x1000, 0x2000, 0}}, {0x1800, 0x1801}));
  const auto second = all.take_in(process({{"/lib/a.so", "1", 0x9000, 0xa000, 0}}, {0x9801, 0x9800}));
  EXPECT_EQ(first[0], 0U);
  EXPECT_EQ(first[1], second[2]);
  EXPECT_EQ(first[2], second[1]);
  EXPECT_EQ(first[2], first[1] + 1);
  ASSERT_EQ(all.modules().size(), 1U);
  EXPECT_EQ(all.modules()[0].end - all.modules()[0].start, 0x1000U);
}

TEST(joined_addresses, segments_of_one_file_keep_their_distance_and_the_longer_view_counts) {
  joined_addresses all;
  const auto first =
      all.take_in(process({{"/a", "1", 0x1000, 0x2000, 0x1000}, {"/a", "1", 0x70000000, 0x70001000, 0x5000}},
                          {0x1010, 0x70000010}));
  EXPECT_EQ(first[2] - first[1], 0x4000U);
  all.take_in(process({{"/a", "1", 0x1000, 0x2800, 0x1000}}, {0x1010}));
  ASSERT_EQ(all.modules().size(), 2U);
  EXPECT_EQ(all.modules()[0].end - all.modules()[0].start, 0x1800U);
}

// A range between two others may be replaced by a library that is loaded later.
TEST(joined_addresses, of_modules_that_overlap_the_later_one_counts) {
  joined_addresses all;
  const auto joined = all.take_in(process(
      {{"/old", "1", 0x1000, 0x4000, 0}, {"/new", "2", 0x2000, 0x3000, 0}}, {0x1800, 0x2800, 0x3800}));
  joined_addresses apart;
  const auto old = apart.take_in(process({{"/old", "1", 0x1000, 0x4000, 0}}, {0x1800, 0x3800}));
  EXPECT_EQ(joined[1], old[1]);
  EXPECT_EQ(joined[3] - joined[1], old[2] - old[1]);
  ASSERT_EQ(all.modules().size(), 2U);
  EXPECT_EQ(all.modules()[1].path, "/new");
  EXPECT_EQ(joined[2] - all.modules()[1].start, 0x800U);
}

TEST(joined_addresses, a_file_above_4_gib_has_room_of_its_own) {
  constexpr std::uint64_t far = std::uint64_t{5} << 32;
  joined_addresses all;
  const auto large = all.take_in(process({{"/large", "1", 0x1000, 0x2000, far}}, {0x1800}));
  const auto next = all.take_in(process({{"/next", "1", 0x1000, 0x2000, 0}}, {0x1800}));
  EXPECT_GE(next[1], large[1] + 0x800);
}

TEST(joined_addresses, code_in_no_file_is_known_by_its_name) {
  profile p = process({}, {0x500, 0x600});
  p.symbols[0x500] = {{"jit_f", "f.js", 3, false}};
  joined_addresses all;
  const auto first = all.take_in(p);
  const auto second = all.take_in(p);
  EXPECT_EQ(first[1], second[1]);
  EXPECT_NE(first[2], second[2]) << "what has no name may be anything";
  EXPECT_EQ(all.symbols().at(first[2]).at(0).function, "?? (0x600)");
  p.symbols[0x500][0].line = 4;
  EXPECT_NE(all.take_in(p)[1], first[1]);
}

TEST(joined_addresses, lines_of_scripts_keep_their_addresses) {
  const std::uint64_t line = script_address("alpha", "two.py", 3);
  joined_addresses joined;
  for (int process = 0; process < 2; ++process) {
    profile p;
    p.modules = {{"/usr/bin/python3.11", "a", 0x1000, 0x2000, 0}};
    p.stacks = {{}, {0, line}, {1, 0x1010}};
    p.symbols[line] = {{"alpha", "two.py", 3, false}};
    const std::vector<std::uint64_t> addresses = joined.take_in(p);
    EXPECT_EQ(addresses[1], line);
    EXPECT_FALSE(is_script_address(addresses[2]));
  }
  EXPECT_EQ(joined.symbols().at(line).front().function, "alpha");
}

TEST(joined_addresses, a_later_process_names_what_the_first_had_no_symbol_for) {
  profile p = process({{"/a", "1", 0x1000, 0x2000, 0}}, {0x1800});
  p.symbols[0x1800] = {{"?? (a+0x800)", "", 0, false}};
  joined_addresses all;
  const std::uint64_t address = all.take_in(p)[1];
  EXPECT_FALSE(all.symbols().contains(address));
  p.symbols[0x1800] = {{"f()", "f.cpp", 3, false}};
  EXPECT_EQ(all.take_in(p)[1], address);
  EXPECT_EQ(all.symbols().at(address).at(0).function, "f()");
}

}  // namespace
}  // namespace tarn::profiler
