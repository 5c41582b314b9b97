// SPDX-License-Identifier: MIT
// recycler_bin: its magazines and what their places pay, with a recycler of its own; its invariants.
#include "fronts/recyclers/recycler_bin.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "broken_invariant.hpp"
#include "engine/engine.hpp"
#include "fronts/recyclers/recycler_core.hpp"

namespace tarn {
namespace {

tarn_recycler_options request_of(std::size_t most_bytes, std::size_t maximum_objects) {
  return {.size = sizeof(tarn_recycler_options),
          .name = "",
          .name_length = 0,
          .limit = most_bytes,
          .limit_objects = maximum_objects,
          .cycle_ms = 0,
          .destroy = [](void* /*context*/, void* object) { *static_cast<int*>(object) = -1; },
          .context = nullptr};
}

// A bin of a recycler of its own.
struct own_bin {
  explicit own_bin(std::size_t most_bytes = 0, std::size_t maximum_objects = 0)
      : recycler(request_of(most_bytes, maximum_objects), "") {
    engine::attach_thread();
    bin.core = &recycler;
    bin.join();
  }
  own_bin(const own_bin&) = delete;
  own_bin& operator=(const own_bin&) = delete;
  ~own_bin() {
    recycler.destroy_chain(bin.take_all());
    for (int generations = 0; generations < 2; ++generations)
      recycler.destroy_chain(recycler.rotate_generations(nullptr));
    EXPECT_EQ(recycler.budget().paid_bytes(), 0U);
    EXPECT_EQ(recycler.budget().paid_objects(), 0U);
  }
  // Gives the first `count` objects; returns how many were kept.
  std::size_t give(std::size_t count, std::size_t bytes) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) kept += bin.give(&objects.at(i), bytes) ? 1 : 0;
    bin.validate();
    return kept;
  }

  std::array<int, 400> objects{};
  tarn_recycler recycler;
  recycler_bin bin;
};

TEST(recycler_bin, the_last_object_given_is_the_first_got) {
  own_bin own;
  EXPECT_EQ(own.bin.get(), nullptr);
  EXPECT_EQ(own.give(40, 10), 40U);
  for (std::size_t i = 40; i != 0; --i) EXPECT_EQ(own.bin.get(), &own.objects[i - 1]);
  EXPECT_EQ(own.bin.get(), nullptr);
  own.bin.validate();
}

TEST(recycler_bin, magazines_begin_small_and_grow_when_they_are_full) {
  own_bin own;
  for (const auto& [objects, capacity] : {std::pair{4U, 4U}, std::pair{1U, 28U}, std::pair{28U, 252U}}) {
    own.give(objects, 1);
    EXPECT_EQ(own.bin.loaded->capacity, capacity);
  }
  EXPECT_NE(own.bin.spare.look(), nullptr);
  EXPECT_FALSE(own.recycler.is_empty()) << "the first magazine was handed over";
}

TEST(recycler_bin, nothing_is_kept_beyond_the_budget) {
  own_bin own(1000, 0);
  EXPECT_EQ(own.give(20, 100), 10U);
  EXPECT_EQ(own.recycler.budget().paid_bytes(), 1000U);
  own_bin by_number(0, 7);
  EXPECT_EQ(by_number.give(20, 100), 7U);
}

// A place keeps what it has paid, so that an object of the same size comes back without a call.
TEST(recycler_bin, an_empty_place_stays_paid_until_the_budget_is_short) {
  own_bin own(100, 0);
  EXPECT_EQ(own.give(2, 50), 2U);
  EXPECT_EQ(own.bin.get(), &own.objects[1]);
  EXPECT_EQ(own.bin.get(), &own.objects[0]);
  EXPECT_EQ(own.recycler.budget().paid_bytes(), 100U);
  EXPECT_TRUE(own.bin.give(&own.objects[3], 90)) << "the other place's payment is refunded";
  EXPECT_EQ(own.recycler.budget().paid_bytes(), 90U);
  EXPECT_FALSE(own.bin.give(&own.objects[4], 11));
}

TEST(recycler_bin, places_are_paid_ahead_while_the_budget_is_ample) {
  own_bin own;
  own.give(5, 100);
  EXPECT_GT(own.recycler.budget().paid_objects(), 5U);
  own_bin scarce(100 * 100, 0);
  scarce.give(5, 100);
  EXPECT_EQ(scarce.recycler.budget().paid_objects(), 5U);
}

// One thread gets, another gives back.
TEST(recycler_bin, a_magazine_that_one_bin_has_emptied_is_filled_by_another) {
  own_bin own;
  recycler_bin taker;
  taker.core = &own.recycler;
  taker.join();
  for (int i = 0; i < 30; ++i) {
    own.give(260, 10);
    while (taker.get() != nullptr) {
    }
  }
  const std::size_t paid = own.recycler.budget().paid_bytes();
  recycler_magazine* const m = own.recycler.take_empty(252);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->begin()->paid, 10U) << "its places stay paid";
  own.recycler.leave_empty(m);
  own.give(252, 10);
  EXPECT_EQ(own.bin.loaded, m);
  EXPECT_EQ(own.recycler.budget().paid_bytes(), paid);
  own.recycler.destroy_chain(taker.take_all());
}

TEST(recycler_bin, what_empty_magazines_have_paid_is_for_those_that_need_it) {
  own_bin own(100, 0);
  const auto leave_empty = [&own] {
    recycler_magazine* const m = recycler_magazine::make(4);
    m->begin()->paid = 60;
    ASSERT_TRUE(own.recycler.budget().pay(60, 1));
    own.recycler.leave_empty(m);
  };
  leave_empty();
  EXPECT_TRUE(own.bin.give(&own.objects[0], 100));
  own.recycler.destroy_chain(own.bin.take_all());
  leave_empty();
  EXPECT_TRUE(own.recycler.give_one(&own.objects[0], 100)) << "without a bin";
}

TEST(recycler_bin, all_that_is_taken_out_leaves_it_void) {
  own_bin own;
  own.give(40, 10);
  recycler_magazine* const all = own.bin.take_all();
  EXPECT_EQ(own.bin.top, recycler_bin::void_top());
  EXPECT_EQ(own.bin.loaded, nullptr);
  own.bin.validate();
  std::size_t objects = 0;
  for (const recycler_magazine* m = all; m != nullptr; m = m->next) objects += m->count;
  recycler_magazine* const handed_over = own.recycler.take_magazine();
  EXPECT_EQ(objects + handed_over->count, 40U);
  EXPECT_EQ(own.recycler.destroy_chain(all), objects);
  EXPECT_EQ(own.recycler.destroy_chain(handed_over), 40U - objects);
  EXPECT_EQ(own.objects[39], -1);
  EXPECT_EQ(own.bin.take_all(), nullptr);
}

TEST(recycler_bin, figures_and_payments_are_those_of_its_places) {
  own_bin own(100'000, 0);
  own.give(4, 100);
  EXPECT_EQ(own.bin.get(), &own.objects[3]);
  tarn_recycler_stats figures{};
  own.bin.add_to(figures);
  EXPECT_EQ(figures.objects, 3U);
  EXPECT_EQ(figures.bytes, 300U);
  recycler_payment paid;
  own.bin.add_to(paid);
  EXPECT_EQ(paid.bytes, own.recycler.budget().paid_bytes());
  EXPECT_EQ(paid.objects, own.recycler.budget().paid_objects());
}

TEST(recycler_bin, objects_of_a_shorter_magazine_move_into_the_longer_one) {
  own_bin own;
  own.give(5, 100);
  while (own.bin.get() != nullptr) {
  }
  ASSERT_EQ(own.bin.loaded->capacity, 28U);
  recycler_magazine* const shorter = recycler_magazine::make(4);
  for (int i = 0; i < 3; ++i) shorter->begin()[i] = {&own.objects.at(static_cast<std::size_t>(i)), 50};
  shorter->count = 3;
  ASSERT_TRUE(own.recycler.budget().pay(150, 3));
  EXPECT_EQ(own.bin.get_from(shorter), &own.objects[2]);
  EXPECT_EQ(own.bin.loaded->capacity, 28U);
  EXPECT_EQ(own.bin.get(), &own.objects[1]);
  own.bin.validate();
}

TEST(recycler_bin, finds_a_broken_invariant) {
  own_bin own;
  own.bin.validate();
  tarn_recycler_entry entry{};
  own.bin.top = &entry;
  EXPECT_BROKEN(own.bin.validate(), "recycler_bin", "top == void_top()", &own.bin);
  own.bin.top = recycler_bin::void_top();
  own.give(34, 10);
  tarn_recycler_entry* const top = std::exchange(own.bin.top, own.bin.loaded->end() + 1);
  EXPECT_BROKEN(own.bin.validate(), "recycler_bin", "loaded->begin() <= top && top <= loaded->end()",
                &own.bin);
  own.bin.top = top + 1;
  EXPECT_BROKEN(own.bin.validate(), "recycler_magazine", "e->object != nullptr && e->paid != 0",
                own.bin.loaded);
  own.bin.top = top;
  recycler_magazine* const spare = own.bin.spare.look();
  const std::uint16_t count = std::exchange(spare->count, 0);
  EXPECT_BROKEN(own.bin.validate(), "recycler_bin", "full == nullptr || full->count != 0", &own.bin);
  own.bin.empty = spare;
  own.bin.spare.take();
  spare->count = 1;
  EXPECT_BROKEN(own.bin.validate(), "recycler_bin", "empty == nullptr || empty->count == 0", &own.bin);
  own.bin.empty = nullptr;
  spare->count = count;
  own.bin.spare.put(spare);
  own.bin.validate();
}

}  // namespace
}  // namespace tarn
