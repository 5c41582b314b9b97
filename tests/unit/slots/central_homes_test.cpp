// SPDX-License-Identifier: MIT
// central_homes: groups of threads have depots of their own.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "broken_invariant.hpp"
#include "slots/central_fixture.hpp"

namespace tarn {
namespace {

using testing_support::central_fixture;
using testing_support::small;

class central_homes_test : public central_fixture {};

TEST_F(central_homes_test, threads_of_two_memory_nodes_share_no_home) {
  std::set<unsigned> homes[2];
  for (unsigned thread = 0; thread < 4 * home_counts::most; ++thread) {
    homes[thread % 2].insert(central_.homes().enter(thread % 2));
  }
  EXPECT_EQ(homes[0].size(), home_counts::most / 2);
  EXPECT_EQ(homes[1].size(), home_counts::most / 2);
  for (const unsigned home : homes[0]) EXPECT_EQ(homes[1].count(home), 0U);
}

TEST_F(central_homes_test, a_home_that_its_threads_have_left_serves_any_node) {
  std::vector<std::uint8_t> left;
  for (unsigned i = 0; i < home_counts::most; ++i) left.push_back(central_.homes().enter(0));
  for (const std::uint8_t home : left) central_.homes().leave(home);
  std::set<unsigned> homes;
  for (unsigned i = 0; i < home_counts::most; ++i) homes.insert(central_.homes().enter(1));
  EXPECT_EQ(homes.size(), home_counts::most);
}

// A class that threads of the homes 0, 1 and 2 use; each home has objects of its own.
class homes_test : public central_fixture {
 protected:
  static constexpr unsigned homes = 3;
  static constexpr std::size_t count = 512 * kib / class_info(small).size;

  void SetUp() override {
    for (unsigned home = 0; home < homes; ++home) ASSERT_EQ(central_.homes().enter(), home);
    std::vector<void*> first;
    for (unsigned turn = 0;
         central_.depots().at(small, 1).home == 0 || central_.depots().at(small, 2).home == 0; ++turn) {
      ASSERT_LT(turn, 100U) << "the class is still that of one home";
      const auto some = take(small, count / 8, turn % homes);
      first.insert(first.end(), some.begin(), some.end());
    }
    give(small, first);
    central_.release_spares(true);
    ASSERT_EQ(in_use(), 0U);
    for (unsigned home = 0; home < homes; ++home) objects_[home] = take(small, count, home);
  }
  unsigned home_of(const void* object) { return span_of(object)->home; }
  magazine* full_magazine(const std::vector<void*>& objects) {
    magazine* const m = new_magazine();
    for (std::size_t i = 0; i < class_info(small).magazine; ++i) m->slots[++m->count] = objects[i];
    return m;
  }
  // Frees all objects; then no span may be in use.
  void expect_nothing_lost() {
    for (const auto& each : objects_) give(small, each);
    central_.flush_idle_magazines(true);
    central_.depots().validate();
    central_.release_spares(true);
    EXPECT_EQ(in_use(), 0U);
  }

  std::vector<void*> objects_[homes];
};

TEST_F(central_homes_test, a_class_that_one_thread_uses_has_one_depot) {
  for (int turn = 0; turn < 100; ++turn) take(small, 1000, 1);
  EXPECT_EQ(central_.depots().at(small, 1).home, 0);
}

TEST_F(central_homes_test, a_class_of_little_memory_has_one_depot) {
  for (unsigned turn = 0; turn < 100; ++turn) take(small, 100, turn % 2);
  EXPECT_EQ(central_.depots().at(small, 1).home, 0);
}

TEST_F(central_homes_test, a_class_of_larger_objects_has_one_depot) {
  const unsigned larger = fine_class_of(512);
  for (unsigned turn = 0; turn < 100; ++turn) take(larger, 1000, turn % 2);
  EXPECT_EQ(central_.depots().at(larger, 1).home, 0);
}

TEST_F(homes_test, each_home_has_spans_of_its_own) {
  for (unsigned home = 0; home < homes; ++home) {
    for (const void* object : objects_[home]) ASSERT_EQ(home_of(object), home);
  }
  expect_nothing_lost();
}

TEST_F(homes_test, objects_of_several_homes_go_back_to_theirs) {
  std::vector<void*> mixed;
  for (std::size_t i = 0; i < count; ++i) {
    for (auto& each : objects_) mixed.push_back(each[i]);
  }
  for (auto& each : objects_) each.clear();
  give(small, mixed);
  for (unsigned home = 0; home < homes; ++home) {
    os::lock_guard guard(central_.depots().at(small, home).lock);
    EXPECT_EQ(central_.depots().at(small, home).spans.taken(), 0U);
    EXPECT_EQ(central_.depots().at(small, home).spare_count(), count / class_info(small).objects);
  }
  expect_nothing_lost();
}

TEST_F(homes_test, a_double_free_of_objects_of_several_homes_is_detected) {
  const std::vector<void*> twice = {objects_[0][0], objects_[1][0], objects_[2][0], objects_[1][0]};
  EXPECT_DEATH(give(small, twice), "double free, detected when the block returned to its span");
}

TEST_F(homes_test, a_full_magazine_waits_where_its_objects_belong) {
  magazine* const of_two = full_magazine(objects_[2]);
  ASSERT_TRUE(central_.give_full(small, of_two, 1));
  EXPECT_EQ(central_.take_full(small, 1), nullptr);
  EXPECT_EQ(central_.take_full(small, 2), of_two);
  std::vector<void*> mixed = objects_[0];
  mixed[1 + class_info(small).magazine / 2] = objects_[2].back();
  mixed[class_info(small).magazine / 2] = objects_[2].back();
  magazine* const of_two_homes = full_magazine(mixed);
  ASSERT_TRUE(central_.give_full(small, of_two_homes, 1));
  EXPECT_EQ(central_.take_full(small, 1), of_two_homes) << "not left for the threads of its giver";
}

TEST_F(homes_test, empty_spans_serve_other_homes_before_the_heap_grows) {
  const std::size_t used = in_use();
  give(small, objects_[1]);
  objects_[1].clear();
  const auto more = take(small, count / 2, 2);
  EXPECT_EQ(in_use(), used);
  for (const void* object : more) ASSERT_EQ(home_of(object), 2U);
  objects_[2].insert(objects_[2].end(), more.begin(), more.end());
  expect_nothing_lost();
}

// Gives back every second object of the home.
class half_free_homes_test : public homes_test {
 protected:
  void SetUp() override {
    homes_test::SetUp();
    std::vector<void*> half;
    for (std::size_t i = 0; i < count; i += 2) {
      half.push_back(objects_[1][i]);
      objects_[0].push_back(objects_[1][i + 1]);
    }
    objects_[1].clear();
    give(small, half);
    engine_->heap.trim(0);
    used_ = in_use();
  }
  // Whether objects for home 2 come from the half-free spans of home 1.
  bool gives_its_spans() {
    const auto more = take(small, count / 4, 2);
    objects_[2].insert(objects_[2].end(), more.begin(), more.end());
    return in_use() == used_;
  }
  std::size_t used_ = 0;
};

TEST_F(half_free_homes_test, spans_partly_used_stay_with_threads_that_used_them_lately) {
  EXPECT_FALSE(gives_its_spans());
  expect_nothing_lost();
}

TEST_F(half_free_homes_test, only_what_nobody_needed_for_a_period_may_be_divided) {
  slot_depot& d = central_.depots().at(small, 1);
  const auto sparse = [&d] {
    os::lock_guard guard(d.lock);
    return d.sparse;
  };
  EXPECT_FALSE(sparse());
  central_.flush_idle_magazines(false);
  central_.flush_idle_magazines(false);
  give(small, {objects_[0].back()});  // counts are looked at when they change
  objects_[0].pop_back();
  EXPECT_TRUE(sparse());
  expect_nothing_lost();
}

TEST_F(half_free_homes_test, spans_partly_used_move_after_a_period_without_use) {
  central_.flush_idle_magazines(false);
  central_.flush_idle_magazines(false);
  EXPECT_TRUE(gives_its_spans());
  expect_nothing_lost();
}

TEST_F(half_free_homes_test, spans_partly_used_move_from_a_home_whose_threads_have_ended) {
  central_.homes().leave(1);
  EXPECT_TRUE(gives_its_spans());
  expect_nothing_lost();
}

TEST_F(homes_test, finds_a_broken_invariant) {
  give(small, {objects_[1][0]});
  central_.depots().validate();
  span_of(objects_[1][0])->home = 2;
  EXPECT_BROKEN(central_.depots().validate(), "class_depots",
                "s.home.load(std::memory_order_relaxed) == d.home", &central_.depots());
}

}  // namespace
}  // namespace tarn
