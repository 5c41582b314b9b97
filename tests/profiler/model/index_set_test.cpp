// SPDX-License-Identifier: MIT
// index_set with distinct and with equal hashes.
#include "profiler/model/index_set.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {

class index_set_test_access {
 public:
  static std::size_t& count(index_set& set) { return set.count_; }
  static std::vector<std::uint32_t>& buckets(index_set& set) { return set.buckets_; }
};

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

TEST(index_set, finds_what_was_added_and_adds_nothing) {
  index_set set;
  const auto is_third = [](std::uint32_t index) { return index == 3; };
  EXPECT_FALSE(set.find_added(0, is_third));
  set.find_or_add(0, 3, is_third, [](std::uint32_t) { return std::size_t{0}; });
  EXPECT_EQ(set.find_added(0, is_third), 3U);
  EXPECT_FALSE(set.find_added(0, [](std::uint32_t) { return false; }));
  EXPECT_FALSE(set.find_added(0, [](std::uint32_t) { return false; })) << "it was not added";
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

TEST(index_set, finds_a_broken_invariant) {
  index_set set;
  set.find_or_add(
      0, 3, [](std::uint32_t) { return true; }, [](std::uint32_t) { return std::size_t{0}; });
  set.validate();
  ++index_set_test_access::count(set);
  EXPECT_BROKEN(set.validate(), "index_set", "count_ == taken", &set);
  --index_set_test_access::count(set);
  index_set_test_access::buckets(set) = {1};
  EXPECT_BROKEN(set.validate(), "index_set", "2 * count_ <= buckets_.size()", &set);
}

}  // namespace
}  // namespace tarn::profiler
