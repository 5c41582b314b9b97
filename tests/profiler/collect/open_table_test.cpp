// SPDX-License-Identifier: MIT
// Entries are found by their keys, also those whose first bucket another one has, and after such a one is gone.
#include "profiler/collect/open_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {
namespace {

struct entry {
  std::uint64_t key = 0;
  int value = 0;
};
using table = open_table<entry, &entry::key>;

TEST(open_table, holds_what_a_map_holds) {
  std::mt19937_64 random(1);
  table entries;
  std::map<std::uint64_t, int> expected;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t key = 1 + random() % 3000;
    if (entry* const known = entries.find(key)) {
      ASSERT_EQ(known->value, expected.at(key));
      entries.erase(known);
      expected.erase(key);
    } else {
      ASSERT_EQ(expected.count(key), 0U);
      entries.add({key, i});
      expected[key] = i;
    }
    ASSERT_EQ(entries.size(), expected.size());
    if (i % 1000 == 0) entries.validate();
  }
}

TEST(open_table, finds_a_broken_invariant) {
  table entries;
  for (std::uint64_t key = 1; key <= 10; ++key) entries.add({key, 0});
  entry* const first = entries.find(1);
  *first = {};
  EXPECT_BROKEN(entries.validate(), "open_table", "count_ == taken", &entries);
  *first = {2, 0};
  EXPECT_BROKEN(entries.validate(), "open_table", "find(entry.*Key) == &entry", &entries);
}

}  // namespace
}  // namespace tarn::profiler
