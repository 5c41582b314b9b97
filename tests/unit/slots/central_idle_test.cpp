// SPDX-License-Identifier: MIT
// central_idle: empty spans and full magazines wait for their next use, and go back.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "slots/central_fixture.hpp"

namespace tarn {
namespace {

using testing_support::central_fixture;
using testing_support::small;

class central_idle_test : public central_fixture {};

// ---- spare spans ----

TEST_F(central_idle_test, empty_spans_are_used_again_in_the_order_of_their_addresses) {
  if (hardened_build) GTEST_SKIP() << "the order is random in the hardened build";
  constexpr std::size_t spans = 64;
  const std::size_t count = spans * class_info(small).objects;
  auto objects = take(small, count);
  ASSERT_EQ(objects.size(), count);
  std::shuffle(objects.begin(), objects.end(), std::mt19937(1));
  give(small, objects);
  ASSERT_EQ(central_.depots().spare_bytes(), spans * class_info(small).span_pages * page_size);
  const auto again = take(small, count);
  ASSERT_EQ(again.size(), count);
  EXPECT_EQ(central_.depots().at(small).counters.spans_made.load(), spans);
  // Without an order, 63 of 64 spans would follow one that is not their neighbour. Each walk begins at any spare span and
  // leaves those before it, so about ln 64 walks are needed.
  std::size_t jumps = 0;
  for (std::size_t i = 1; i < again.size(); ++i) {
    jumps += address_of(again[i]) == address_of(again[i - 1]) + class_info(small).size ? 0 : 1;
  }
  EXPECT_LE(jumps, 16U);
}

TEST_F(central_idle_test, tells_which_spare_span_is_used_next) {
  if (hardened_build) GTEST_SKIP() << "the order is random in the hardened build";
  constexpr std::size_t spans = 16;
  const std::size_t per_span = class_info(small).objects;
  auto objects = take(small, spans * per_span);
  ASSERT_EQ(objects.size(), spans * per_span);
  std::shuffle(objects.begin(), objects.end(), std::mt19937(2));
  give(small, objects);
  auto taken = take(small, per_span);
  for (std::size_t i = 1; i < spans; ++i) {
    taken = take(small, per_span);
    class_depots::occupancy out{};
    ASSERT_TRUE(central_.depots().occupancy_of(*central_.map().span_of(address_of(taken[0])), taken[0], out));
    EXPECT_FALSE(out.is_next) << "it is full";
  }
}

TEST_F(central_idle_test, spares_that_were_used_lately_stay_for_a_period) {
  give(small, take(small, 3 * class_info(small).objects));
  EXPECT_EQ(central_.release_spares(false), 0U) << "they became spare in this period";
  EXPECT_EQ(central_.release_spares(false), 3U * class_info(small).span_pages * page_size);
  EXPECT_EQ(central_.depots().spare_bytes(), 0U);
}

TEST_F(central_idle_test, empty_spans_serve_other_classes_before_the_heap_grows) {
  const auto objects = take(small, 64 * class_info(small).objects);
  const std::size_t used = in_use();
  give(small, objects);
  EXPECT_EQ(central_.depots().spare_bytes(), used);
  const unsigned large = class_of_size(64 * kib);
  take(large, 1);
  EXPECT_LT(central_.depots().spare_bytes(), used);
  EXPECT_NE(central_.depots().spare_bytes(), 0U) << "no more than are needed";
  EXPECT_LE(in_use(), used);
}

TEST_F(central_idle_test, a_class_keeps_few_empty_spans) {
  const auto objects = take(small, 64 * class_info(small).objects);
  const std::size_t used = in_use();
  give(small, objects);
  central_.release_surplus(small);
  EXPECT_LE(central_.depots().spare_bytes(), used / 4);
  EXPECT_EQ(central_.depots().spare_bytes(), in_use());
  EXPECT_GE(engine_->heap.dirty_bytes(), used / 2);
}

TEST_F(central_idle_test, spare_spans_go_back_until_there_are_enough_bytes) {
  const auto some = take(small, 8 * class_info(small).objects);
  give(small, some);
  const std::size_t spare = central_.depots().spare_bytes();
  const std::size_t span_length = span_of(some[0])->bytes();
  ASSERT_GE(spare, 8 * span_length);
  EXPECT_EQ(central_.release_spares(true, 2 * span_length + 1), 3 * span_length);
  EXPECT_EQ(central_.depots().spare_bytes(), spare - 3 * span_length);
}

// ---- full magazines ----

TEST_F(central_idle_test, full_magazines_change_hands_up_to_a_limit) {
  for (const unsigned c : {1U, small, 40U, size_classes::count - 1}) {
    std::size_t given = 0;
    for (;; ++given) {
      magazine* const m = new_magazine();
      const std::size_t most = std::min<std::size_t>(m->capacity, class_info(c).magazine);
      while (m->count < most) {
        const auto one = take(c, 1);
        m->slots[++m->count] = one[0];
      }
      if (!central_.give_full(c, m)) break;
      ASSERT_LE(given, 4096U) << "the depot has no limit";
    }
    const std::size_t bytes = given * class_info(c).magazine * std::size_t{class_info(c).size};
    EXPECT_GE(given, 2U);
    EXPECT_LE(bytes, std::max<std::size_t>(256 * kib, 2 * largest_class_size));
    EXPECT_EQ(central_.handover_bytes(), bytes);
    central_.flush_idle_magazines(true);
  }
}

TEST_F(central_idle_test, full_and_empty_magazines_of_a_depot_have_one_limit) {
  std::vector<magazine*> left;
  do left.push_back(new_magazine());
  while (central_.leave_empty(small, left.back()));
  ASSERT_LT(left.size(), 100U) << "the depot has no limit";
  magazine* const full = left.back();
  full->count = static_cast<std::uint16_t>(central_.refill(small, full, class_info(small).magazine));
  ASSERT_TRUE(central_.give_full(small, full));
  EXPECT_FALSE(central_.leave_empty(small, new_magazine()));
  central_.flush_idle_magazines(true);
  EXPECT_EQ(std::count(left.begin(), left.end(), new_magazine()), 1) << "they did not go back to the store";
}

// In random order, so that spans become partly free and the class drains until all of its free objects may wait.
TEST_F(central_idle_test, what_is_freed_and_allocated_again_and_again_comes_to_wait_in_full_magazines) {
  constexpr std::size_t count = 100000;
  std::mt19937 random(1);
  std::vector<void*> live;
  const auto refills = [this] { return central_.depots().at(small).counters.refills.load(); };
  std::uint64_t before = 0;
  for (int round = 0; round < 12; ++round) {
    before = refills();
    while (live.size() < count) {
      magazine* m = central_.take_full(small);
      if (m == nullptr) {
        m = new_magazine();
        m->count = static_cast<std::uint16_t>(central_.refill(small, m, class_info(small).magazine));
      }
      live.insert(live.end(), m->bottom(), m->bottom() + m->count);
      central_.magazines().deallocate(m);
    }
    std::shuffle(live.begin(), live.end(), random);
    while (!live.empty()) {
      magazine* const m = new_magazine();
      m->count = static_cast<std::uint16_t>(std::min<std::size_t>(live.size(), class_info(small).magazine));
      std::copy(live.end() - m->count, live.end(), m->bottom());
      live.resize(live.size() - m->count);
      if (m->count == class_info(small).magazine && central_.give_full(small, m)) continue;
      central_.flush(small, m->bottom(), m->count);
      central_.magazines().deallocate(m);
    }
  }
  EXPECT_LE(refills() - before, count / class_info(small).magazine / 10);
}

// Objects of the class go back to their spans and are taken out again, in one period.
class full_limit_test : public central_fixture {
 protected:
  void SetUp() override {
    objects_ = take(small, objects);
    before_ = leave();
    central_.flush_idle_magazines(true);
    objects_ = take(small, objects);
    give(small, objects_);
    objects_ = take(small, objects);
  }
  // Leaves objects in full magazines until there is no room for more; gives the others back. Returns the magazines'
  // number.
  std::size_t leave() {
    std::size_t left = 0;
    for (; objects_.size() >= class_info(small).magazine; ++left) {
      magazine* const m = new_magazine();
      m->count = class_info(small).magazine;
      std::copy(objects_.end() - m->count, objects_.end(), m->bottom());
      if (!central_.give_full(small, m)) break;
      objects_.resize(objects_.size() - m->count);
    }
    give(small, std::exchange(objects_, {}));
    return left;
  }

  static constexpr std::size_t objects = 100000;
  static constexpr std::size_t bytes = objects * class_info(small).size;
  std::size_t before_ = 0;
  std::vector<void*> objects_;
};

TEST_F(full_limit_test, more_magazines_wait_if_their_objects_are_taken_again) {
  const std::size_t now = leave();
  EXPECT_GT(now, 2 * before_);
  EXPECT_LE((now - before_) * class_info(small).magazine * sizeof(void*), bytes / 8);
}

TEST_F(full_limit_test, fewer_wait_after_a_period_in_which_nobody_took_them) {
  leave();
  central_.flush_idle_magazines(false);
  central_.flush_idle_magazines(false);
  EXPECT_EQ(central_.handover_bytes(), 0U);
  EXPECT_EQ(central_.depots().at(small).full_limit.extra(), 0U);
}

TEST_F(full_limit_test, those_beyond_the_limit_go_back_before_the_heap_grows) {
  ASSERT_GT(leave(), before_);
  engine_->heap.trim(0);
  const std::size_t used = in_use();
  take(small + 1, bytes / class_info(small + 1).size / 2);
  EXPECT_EQ(central_.handover_bytes(), 0U);
  EXPECT_EQ(central_.depots().at(small).full_limit.extra(), 0U);
  EXPECT_LE(in_use(), used) << "empty spans serve the other class";
}

TEST_F(full_limit_test, a_depot_that_drains_keeps_no_magazine) {
  for (std::size_t i = 0; i < objects / 2; ++i) std::swap(objects_[i], objects_[2 * i]);
  give(small, {objects_.begin() + objects / 2, objects_.end()});
  objects_.resize(objects / 2);
  ASSERT_TRUE(central_.draining(small));
  EXPECT_EQ(leave(), 0U);
}

}  // namespace
}  // namespace tarn
