// SPDX-License-Identifier: MIT
// object_depot: full magazines, the order of spans by free objects, spare spans, draining.
#include "central/object_depot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

constexpr std::uint16_t slots_in_span = 40;

struct own_span : span {
  own_span() { span::capacity = slots_in_span; }
};

TEST(object_depot, a_new_span_is_spare_and_goes_through_the_lists) {
  object_depot depot;
  own_span s;
  depot.add(&s);
  EXPECT_EQ(depot.spare_count, 1U);
  EXPECT_EQ(depot.best(), &s);
  EXPECT_FALSE(depot.change_free_count(&s, -1));
  EXPECT_EQ(depot.spare_count, 0U);
  EXPECT_EQ(depot.best(), &s);
  EXPECT_FALSE(depot.change_free_count(&s, 1 - slots_in_span));
  EXPECT_EQ(depot.best(), nullptr) << "it has no free object";
  EXPECT_TRUE(depot.change_free_count(&s, slots_in_span));
  EXPECT_EQ(depot.take_spare_span(), &s);
  EXPECT_EQ(depot.take_spare_span(), nullptr);
  EXPECT_EQ(depot.best(), nullptr);
}

TEST(object_depot, spares_have_a_low_mark) {
  object_depot depot;
  own_span s[3];
  for (own_span& each : s) depot.add(&each);
  depot.spare_low.end_period(depot.spare_count);
  depot.change_free_count(depot.best(), -1);
  depot.change_free_count(depot.best(), 1);
  EXPECT_EQ(depot.spare_count, 3U);
  EXPECT_EQ(depot.spare_low.lowest(), 2U);
}

// Compares best() with a search of all spans.
TEST(object_depot, the_fullest_span_is_used_first) {
  object_depot depot;
  own_span spans[12];
  std::mt19937 random(10);
  for (own_span& s : spans) depot.add(&s);
  for (int step = 0; step < 20000; ++step) {
    own_span& s = spans[random() % 12];
    depot.change_free_count(&s, static_cast<int>(random() % (slots_in_span + 1U)) - s.free_objects);
    const span* const best = depot.best();
    const auto spares =
        std::count_if(spans, spans + 12, [](const span& x) { return x.free_objects == slots_in_span; });
    ASSERT_EQ(depot.spare_count, spares);
    const span* fullest = nullptr;
    for (const own_span& x : spans) {
      if (x.free_objects > 0 && (fullest == nullptr || x.free_objects < fullest->free_objects)) fullest = &x;
    }
    ASSERT_EQ(best == nullptr, fullest == nullptr);
    if (best == nullptr) continue;
    ASSERT_GT(best->free_objects, 0);
    // The depot sorts spans by eighths of their capacity only.
    ASSERT_EQ(best->free_objects * 8 / slots_in_span, fullest->free_objects * 8 / slots_in_span);
  }
}

TEST(object_depot, partial_spans_are_visited_from_the_emptiest_to_the_least_free_wanted) {
  object_depot depot;
  own_span spans[slots_in_span];
  std::vector<std::uint16_t> wanted;
  for (std::uint16_t free = 1; free < slots_in_span; ++free) {
    depot.add(&spans[free]);
    depot.change_free_count(&spans[free], free - slots_in_span);
    if (free * 8 >= 5 * slots_in_span) wanted.push_back(free);
  }
  std::vector<std::uint16_t> visited;
  unsigned last = object_depot::partial_lists;
  depot.for_each_partial(5, 1, slots_in_span, [&](span* s) {
    EXPECT_LE(s->list, last);
    last = s->list;
    visited.push_back(s->free_objects);
    return true;
  });
  std::sort(visited.begin(), visited.end());
  EXPECT_EQ(visited, wanted);
}

TEST(object_depot, extends_a_span_of_any_list) {
  for (const int taken : {0, 1, int{slots_in_span}}) {
    object_depot depot;
    own_span s;
    depot.add(&s);
    if (taken != 0) depot.change_free_count(&s, -taken);
    depot.extend(&s, 2);
    EXPECT_EQ(s.capacity, slots_in_span + 2);
    EXPECT_EQ(depot.spare_count, 0U);
    EXPECT_EQ(depot.free_slots(), slots_in_span - taken);
    EXPECT_EQ(depot.taken(), static_cast<std::size_t>(taken) + 2);
  }
}

TEST(object_depot, drains_while_much_lies_free_in_spans_partly_used) {
  object_depot depot;
  own_span spans[8];
  const std::size_t size = 64 * kib;
  for (own_span& s : spans) depot.add(&s);
  depot.review(size);
  EXPECT_FALSE(depot.draining.load()) << "drains because of spare spans";
  for (own_span& s : spans) depot.change_free_count(&s, -slots_in_span);
  depot.review(size);
  EXPECT_FALSE(depot.draining.load()) << "drains though no object is free";
  for (own_span& s : spans) depot.change_free_count(&s, slots_in_span / 2);
  depot.review(size);
  EXPECT_TRUE(depot.draining.load());
  depot.review(8);
  EXPECT_FALSE(depot.draining.load()) << "drains because of few bytes";
  depot.review(size);
  for (own_span& s : spans) depot.change_free_count(&s, -slots_in_span / 2);
  depot.review(size);
  EXPECT_FALSE(depot.draining.load());
}

TEST(object_depot, finds_a_broken_invariant) {
  object_depot depot;
  own_span spare;
  own_span partial;
  own_span taken;
  magazine m;
  for (own_span* s : {&spare, &partial, &taken}) depot.add(s);
  depot.change_free_count(&partial, -5);
  depot.change_free_count(&taken, -slots_in_span);
  depot.full.push(&m);
  depot.validate_locked();
  const auto expect_broken = [&](const std::string& equation) {
    EXPECT_TARN_ABORT(depot.validate_locked(),
                      testing_support::literally("broken invariant of object_depot: " + equation), &depot);
  };
  partial.free_objects = 1;
  expect_broken("s->list == i && list_of(s) == i");
  partial.free_objects = slots_in_span - 5;
  const std::uint16_t least = std::exchange(partial.least_in_list, slots_in_span - 4);
  expect_broken("s->least_in_list <= s->free_objects && s->free_objects <= s->most_in_list");
  partial.least_in_list = least;
  --partial.capacity;
  expect_broken("slots_ - full_slots_ == slots");
  ++partial.capacity;
  partial.free_objects = slots_in_span - 4;
  expect_broken("free_slots_ == free_slots");
  partial.free_objects = slots_in_span - 5;
  spare.free_objects = 1;
  expect_broken("s->list == spare_list && s->free_objects == s->capacity");
  spare.free_objects = slots_in_span;
  depot.spare_count.store(2);
  expect_broken("counted_spares == spares");
  depot.spare_count.store(1);
  depot.spare_low.end_period(2);
  expect_broken("spare_low.lowest() <= counted_spares");
  depot.spare_low.end_period(0);
  depot.adopt(&taken);  // counted twice: a span may be in one depot only
  depot.validate_locked();
  depot.remove(&taken);
  depot.remove(&taken);
  depot.remove(&taken);
  expect_broken("slots_ >= slots");
}

#if TARN_CHECKS
TEST(object_depot, a_guard_checks_what_its_lock_guards) {
  object_depot depot;
  depot.spare_low.end_period(1);
  EXPECT_BROKEN(
      for (unsigned i = 0; i < os::check_interval; ++i) { os::lock_guard guard(depot.lock, depot); },
      "object_depot", "spare_low.lowest() <= counted_spares", &depot);
}
#endif

}  // namespace
}  // namespace tarn
