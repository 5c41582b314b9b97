// SPDX-License-Identifier: MIT
#include "central/magazine.hpp"

#include <gtest/gtest.h>

#include "central/object_depot.hpp"

namespace tarn {
namespace {

TEST(magazine_store, each_size_holds_what_it_says) {
  metadata_arena arena;
  magazine_store store;
  for (std::size_t i = 0; i < magazine_store::sizes; ++i) {
    magazine* const m = store.allocate(arena, i);
    magazine* const next = store.allocate(arena, i);
    ASSERT_TRUE(m != nullptr && next != nullptr);
    EXPECT_EQ(m->capacity, magazine_store::capacities[i]);
    EXPECT_EQ(m->count, 0U);
    EXPECT_EQ(m->slots[0], nullptr) << "the sentinel";
    EXPECT_EQ(magazine::of_slots(m->slots), m);
    EXPECT_GE(address_of(next), address_of(m->bottom() + m->capacity)) << "the last slot is not its own";
  }
}

TEST(magazine_store, a_used_one_comes_back_empty_and_of_its_size) {
  metadata_arena arena;
  magazine_store store;
  magazine* const large = store.allocate(arena, 2);
  magazine* const little = store.allocate(arena, 0);
  large->count = 7;
  large->slots[0] = large;
  store.deallocate(large);
  store.deallocate(little);
  magazine* const again = store.allocate(arena, 2);
  EXPECT_EQ(again, large);
  EXPECT_EQ(again->count, 0U);
  EXPECT_EQ(again->slots[0], nullptr);
  EXPECT_EQ(again->capacity, magazine_store::capacities[2]);
  EXPECT_EQ(store.allocate(arena, 0), little);
}

TEST(object_depot, low_marks_are_the_least_since_they_were_set) {
  object_depot depot;
  magazine m[4];
  for (magazine& each : m) depot.push_full(&each);
  depot.full_low = depot.full_count;
  EXPECT_EQ(depot.pop_full(), &m[3]) << "the warmest first";
  EXPECT_EQ(depot.pop_full(), &m[2]);
  depot.push_full(&m[2]);
  EXPECT_EQ(depot.full_low, 2U);
  EXPECT_EQ(depot.full_count, 3U);
  span s[2];
  depot.push_spare(&s[0]);
  depot.push_spare(&s[1]);
  EXPECT_EQ(s[0].state.load(), span_state::spare);
  depot.spare_low = depot.spare_count;
  EXPECT_EQ(depot.pop_spare(), &s[1]);
  EXPECT_EQ(depot.spare_low, 1U);
  EXPECT_EQ(depot.pop_spare(), &s[0]);
  EXPECT_EQ(depot.pop_spare(), nullptr);
  EXPECT_EQ(depot.spare_low, 0U);
}

}  // namespace
}  // namespace tarn
