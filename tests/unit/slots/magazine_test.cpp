// SPDX-License-Identifier: MIT
// magazine_store: magazines of each size, new and used again.
#include "slots/magazine.hpp"

#include <gtest/gtest.h>

#include "broken_invariant.hpp"
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
    EXPECT_EQ(m->slots[0], nullptr);
    EXPECT_GE(address_of(next), address_of(m->bottom() + m->capacity))
        << "the last slot lies in another magazine";
  }
}

TEST(magazine_store, a_used_one_comes_back_empty_and_of_its_size) {
  metadata_arena arena;
  magazine_store store;
  magazine* const large = store.allocate(arena, 2);
  magazine* const little = store.allocate(arena, 0);
  large->count = 7;
  large->slots[0] = large->slots[200] = large;
  store.deallocate(large);
  store.deallocate(little);
  magazine* const again = store.allocate(arena, 2);
  EXPECT_EQ(again, large);
  EXPECT_EQ(again->count, 0U);
  EXPECT_EQ(again->slots[0], nullptr);
  EXPECT_EQ(again->capacity, magazine_store::capacities[2]);
  EXPECT_EQ(store.allocate(arena, 0), little);
}

TEST(magazine, finds_a_broken_invariant) {
  magazine m;
  m.validate();
  m.count = 1;
  EXPECT_BROKEN(m.validate(), "magazine", "count <= capacity", &m);
  m.slots[0] = &m;
  EXPECT_BROKEN(m.validate(), "magazine", "slots[0] == nullptr", &m);
  metadata_arena arena;
  magazine_store store;
  magazine* const stored = store.allocate(arena, 0);
  stored->count = 1;
  EXPECT_BROKEN(stored->validate(), "magazine", "slots[i] != nullptr", stored);
}

}  // namespace
}  // namespace tarn
