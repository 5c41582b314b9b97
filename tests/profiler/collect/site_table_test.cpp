// SPDX-License-Identifier: MIT
// site_table: short lists in which frequent items move to the front.
#include "profiler/collect/site_table.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(find_or_append, an_item_that_is_found_moves_one_place_forward) {
  std::vector<int> items;
  int made = 0;
  const auto look = [&](int wanted) -> int& {
    return find_or_append(
        items, [wanted](int item) { return item == wanted; }, [&] { return ++made, wanted; });
  };
  for (const int item : {1, 2, 3}) look(item);
  EXPECT_EQ(items, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(look(3), 3);
  EXPECT_EQ(items, (std::vector<int>{1, 3, 2}));
  EXPECT_EQ(&look(3), &items[0]);
  EXPECT_EQ(items, (std::vector<int>{3, 1, 2}));
  look(3);
  EXPECT_EQ(items, (std::vector<int>{3, 1, 2}));
  EXPECT_EQ(made, 3);
}

}  // namespace
}  // namespace tarn::profiler
