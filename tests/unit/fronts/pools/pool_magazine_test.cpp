// SPDX-License-Identifier: MIT
// pool_magazine: the lengths of magazines, and the memory that they come from.
#include "fronts/pools/pool_magazine.hpp"

#include <gtest/gtest.h>

#include "base/chain.hpp"

namespace tarn {
namespace {

class pool_magazine_test : public testing::Test {
 protected:
  pool_magazine_test() { engine::attach_thread(); }
};

TEST_F(pool_magazine_test, the_shortest_that_has_room_for_the_slots) {
  constexpr const auto& capacities = magazine_store::capacities;
  const std::size_t asked[] = {1, capacities[0], capacities[0] + 1, capacities[1]};
  const std::size_t given[] = {capacities[0], capacities[0], capacities[1], capacities[1]};
  for (std::size_t i = 0; i < 4; ++i) {
    magazine* const m = pool_magazine::allocate_some(asked[i]);
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->capacity, given[i]);
    EXPECT_EQ(m->next, nullptr);
    EXPECT_EQ(m->count, 0U);
    m->validate();
    pool_magazine::deallocate(m);
  }
}

TEST_F(pool_magazine_test, long_ones_come_several_at_once_and_are_malloc_s_objects) {
  magazine* all = pool_magazine::allocate_some(magazine_store::capacities[1] + 1);
  ASSERT_NE(all, nullptr);
  std::size_t count = 0;
  while (magazine* const m = chain::pop(all)) {
    ++count;
    EXPECT_EQ(m->capacity, largest_magazine);
    EXPECT_EQ(m->count, 0U);
    m->validate();
    const page_map::entry page = engine::map.find(address_of(m));
    EXPECT_EQ(page.size_class(), class_of_size(pool_magazine::long_bytes));
    EXPECT_FALSE(free_mark::is_set(m));
    pool_magazine::deallocate(m);
  }
  EXPECT_GE(count, 1U);
  EXPECT_LE(count, pool_magazine::batch);
}

TEST_F(pool_magazine_test, a_short_one_that_was_freed_is_given_again) {
  magazine* const m = pool_magazine::allocate_some(1);
  m->count = 7;
  pool_magazine::deallocate(m);
  magazine* const again = pool_magazine::allocate_some(1);
  EXPECT_EQ(again, m);
  EXPECT_EQ(again->count, 0U);
  pool_magazine::deallocate(again);
}

}  // namespace
}  // namespace tarn
