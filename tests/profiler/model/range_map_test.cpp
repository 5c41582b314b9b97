// SPDX-License-Identifier: MIT
// range_map: the range added last counts, and leaves what it does not cover.
#include "profiler/model/range_map.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tarn::profiler {
namespace {

TEST(range_map, is_what_a_list_of_cells_would_be) {
  std::mt19937 random(1);
  range_map<int> ranges;
  std::vector<int> cells(100);
  for (int value = 1; value < 2000; ++value) {
    const std::size_t start = random() % cells.size();
    const std::size_t end = random() % (cells.size() + 1);
    ranges.add(start, end, value);
    for (std::size_t at = start; at < end; ++at) cells[at] = value;
    for (std::size_t at = 0; at < cells.size(); ++at) {
      const int* const found = ranges.at(at);
      ASSERT_EQ(found != nullptr ? *found : 0, cells[at]);
    }
  }
  EXPECT_EQ(ranges.at(100), nullptr);
}

TEST(range_map, what_is_removed_is_told_and_the_rest_stays) {
  range_map<int> ranges;
  ranges.add(0x1000, 0x4000, 1);
  ranges.add(0x5000, 0x6000, 2);
  std::string told;
  const auto tell = [&told](int value, std::uint64_t from, std::uint64_t to) {
    told += std::to_string(value) + ": " + std::to_string(from >> 12) + "-" + std::to_string(to >> 12) + "; ";
  };
  ranges.remove(0x2000, 0x3000, tell);
  EXPECT_EQ(std::exchange(told, {}), "1: 2-3; ");
  ranges.remove(0x3000, 0x8000, tell);
  EXPECT_EQ(std::exchange(told, {}), "1: 3-4; 2: 5-6; ");
  ranges.remove(0x2000, 0x2000, tell);
  EXPECT_EQ(told, "");
  ranges.for_each([&told](std::uint64_t start, std::uint64_t end, int value) {
    told +=
        std::to_string(value) + ": " + std::to_string(start >> 12) + "-" + std::to_string(end >> 12) + "; ";
  });
  EXPECT_EQ(told, "1: 1-2; ");
  EXPECT_EQ(ranges.size(), 1U);
}

TEST(range_map, the_next_range_above_an_address) {
  range_map<int> ranges;
  EXPECT_EQ(ranges.above(0).second, nullptr);
  ranges.add(0x1000, 0x2000, 1);
  ranges.add(0x3000, 0x4000, 2);
  EXPECT_EQ(ranges.above(0xfff).first, 0x1000U);
  EXPECT_EQ(*ranges.above(0x1000).second, 2);
  EXPECT_EQ(ranges.above(0x3000).second, nullptr);
}

}  // namespace
}  // namespace tarn::profiler
