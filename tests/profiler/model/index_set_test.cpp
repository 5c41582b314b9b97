// SPDX-License-Identifier: MIT
// index_set with distinct and with equal hashes.
#include "profiler/model/index_set.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tarn::profiler {
namespace {

TEST(index_set, finds_each_item_once_also_where_hashes_are_equal) {
  for (const std::size_t different_hashes : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 40}) {
    const auto hash_of = [&](std::size_t value) { return value % different_hashes; };
    std::vector<std::size_t> values;
    index_set set;
    for (int round = 0; round < 2; ++round) {
      for (std::size_t value = 0; value < 1000; ++value) {
        const auto next = static_cast<std::uint32_t>(values.size());
        const std::uint32_t at = set.find_or_add(
            hash_of(value), next, [&](std::uint32_t index) { return values[index] == value; },
            [&](std::uint32_t index) { return hash_of(values[index]); });
        if (at == next) values.push_back(value);
        ASSERT_EQ(values[at], value);
      }
      ASSERT_EQ(values.size(), 1000U);
    }
  }
}

TEST(index_set, forgets_all_items) {
  index_set set;
  const auto is_it = [](std::uint32_t) { return true; };
  const auto hash_of = [](std::uint32_t) { return std::size_t{0}; };
  EXPECT_EQ(set.find_or_add(0, 3, is_it, hash_of), 3U);
  EXPECT_EQ(set.find_or_add(0, 4, is_it, hash_of), 3U);
  set.clear();
  EXPECT_EQ(set.find_or_add(0, 5, is_it, hash_of), 5U);
}

}  // namespace
}  // namespace tarn::profiler
