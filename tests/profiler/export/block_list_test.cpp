// SPDX-License-Identifier: MIT
// block_list: elements keep their order and their addresses over many blocks.
#include "profiler/export/block_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace tarn::profiler {
namespace {

TEST(block_list, elements_keep_their_order_and_places) {
  using element = std::array<std::size_t, 28>;  // blocks of 292
  block_list<element> list;
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.begin() == list.end());
  const element* const first = &list.push_back({7});
  for (std::size_t i = 1; i < 5000; ++i) list.push_back({i});
  EXPECT_EQ(list.size(), 5000U);
  EXPECT_EQ(first, &list[0]);
  list[0][0] = 0;
  std::size_t next = 0;
  for (const element& each : list) ASSERT_EQ(each[0], next++);
  EXPECT_EQ(next, 5000U);
  const block_list<element>& same = list;
  EXPECT_EQ(std::count_if(same.begin(), same.end(), [](const element& each) { return each[0] % 2 == 0; }),
            2500);
  EXPECT_EQ(same.begin()->front(), 0U);
}

TEST(block_list, an_element_longer_than_a_block) {
  struct large {
    std::array<char, 100'000> bytes = {};
  };
  block_list<large> list;
  for (char i = 0; i < 3; ++i) list.push_back({}).bytes[99'999] = i;
  for (char i = 0; i < 3; ++i) EXPECT_EQ(list[static_cast<std::size_t>(i)].bytes[99'999], i);
}

}  // namespace
}  // namespace tarn::profiler
