// SPDX-License-Identifier: MIT
// slot_spans: the order of spans by free slots, spare spans. slot_depot: draining, what its guard checks. What fronts do
// with a depot: slot_fronts_test.
#include "slots/slot_depot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "broken_invariant.hpp"

namespace tarn {

class slot_spans_test_access {
 public:
  static std::atomic<std::uint32_t>& spare_count(slot_spans& spans) { return spans.spare_count_; }
  static std::atomic<std::size_t>& spare_bytes(slot_spans& spans) { return spans.spare_bytes_; }
  static low_mark& spare_low(slot_spans& spans) { return spans.spare_low_; }
};

namespace {

constexpr std::uint16_t slots_in_span = 40;

struct own_span : span {
  own_span() {
    free_objects = span::capacity = slots_in_span;
    span::pages = 1;
  }
};

using access = slot_spans_test_access;

TEST(slot_spans, a_new_span_is_spare_and_goes_through_the_lists) {
  slot_spans spans;
  own_span s;
  spans.adopt(&s);
  EXPECT_EQ(spans.spare_count(), 1U);
  EXPECT_EQ(spans.spare_bytes(), s.bytes());
  EXPECT_EQ(spans.best(), &s);
  spans.change_free_count(&s, -1);
  EXPECT_EQ(spans.spare_count(), 0U);
  EXPECT_EQ(spans.spare_bytes(), 0U);
  EXPECT_EQ(spans.best(), &s);
  spans.change_free_count(&s, 1 - slots_in_span);
  EXPECT_EQ(spans.best(), nullptr) << "it has no free slot";
  spans.change_free_count(&s, slots_in_span);
  EXPECT_TRUE(slot_spans::is_spare(&s));
  EXPECT_EQ(spans.take_spare(), &s);
  EXPECT_EQ(spans.take_spare(), nullptr);
  EXPECT_EQ(spans.best(), nullptr);
}

TEST(slot_spans, those_without_free_slots_are_listed_for_owners_that_want_them) {
  for (const bool lists_full : {false, true}) {
    slot_spans spans(lists_full);
    own_span s[2];
    for (own_span& each : s) spans.adopt(&each);
    spans.change_free_count(&s[0], -slots_in_span);
    spans.validate();
    std::size_t listed = 0;
    spans.for_each([&listed](const span&) { ++listed; });
    EXPECT_EQ(listed, lists_full ? 2U : 1U);
    EXPECT_EQ(spans.any(), lists_full ? &s[0] : &s[1]);
    spans.remove(&s[0]);
    EXPECT_EQ(spans.any(), &s[1]);
    spans.validate();
  }
}

TEST(slot_spans, spares_have_a_low_mark) {
  slot_spans spans;
  own_span s[3];
  for (own_span& each : s) spans.adopt(&each);
  spans.end_period_of_spares();
  spans.change_free_count(spans.best(), -1);
  spans.change_free_count(spans.best(), 1);
  EXPECT_EQ(spans.spare_count(), 3U);
  EXPECT_EQ(spans.end_period_of_spares(), 2U);
}

// Compares best() with a search of all spans.
TEST(slot_spans, the_fullest_span_is_used_first) {
  slot_spans depot;
  own_span spans[12];
  std::mt19937 random(10);
  for (own_span& s : spans) depot.adopt(&s);
  for (int step = 0; step < 20000; ++step) {
    own_span& s = spans[random() % 12];
    depot.change_free_count(&s, static_cast<int>(random() % (slots_in_span + 1U)) - s.free_objects);
    const span* const best = depot.best();
    const auto spares =
        std::count_if(spans, spans + 12, [](const span& x) { return x.free_objects == slots_in_span; });
    ASSERT_EQ(depot.spare_count(), spares);
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

TEST(slot_spans, partial_spans_are_visited_from_the_emptiest_to_the_least_free_wanted) {
  slot_spans depot;
  own_span spans[slots_in_span];
  std::vector<std::uint16_t> wanted;
  for (std::uint16_t free = 1; free < slots_in_span; ++free) {
    depot.adopt(&spans[free]);
    depot.change_free_count(&spans[free], free - slots_in_span);
    if (free * 8 >= 5 * slots_in_span) wanted.push_back(free);
  }
  std::vector<std::uint16_t> visited;
  unsigned last = slot_spans::partial_lists;
  depot.for_each_partial(5, 1, slots_in_span, [&](span* s) {
    EXPECT_LE(s->list, last);
    last = s->list;
    visited.push_back(s->free_objects);
    return true;
  });
  std::sort(visited.begin(), visited.end());
  EXPECT_EQ(visited, wanted);
}

TEST(slot_spans, spans_set_aside_are_not_used_until_they_have_changed) {
  slot_spans depot;
  own_span inherited[3];
  own_span own[2];
  for (own_span& s : inherited) {
    depot.adopt(&s);
    depot.change_free_count(&s, -slots_in_span / 2);
  }
  const std::string before(reinterpret_cast<const char*>(inherited), sizeof inherited);
  depot.set_aside();
  EXPECT_EQ(before, std::string(reinterpret_cast<const char*>(inherited), sizeof inherited))
      << "a page is copied";
  depot.validate();
  EXPECT_EQ(depot.best(), nullptr);
  EXPECT_EQ(depot.sparsest(), nullptr);
  EXPECT_EQ(depot.free_slots(), 3U * (slots_in_span / 2));
  for (own_span& s : own) {
    depot.adopt(&s);
    depot.change_free_count(&s, -slots_in_span / 2);
  }
  EXPECT_EQ(depot.best(), &own[1]);
  // Nothing moves behind those that are set aside.
  std::size_t visited = 0;
  const auto never = [&visited](const span*) { return ++visited == 0; };
  EXPECT_EQ(depot.find_in_list(4, slots_in_span, never), nullptr);
  EXPECT_EQ(visited, 2U);
  visited = 0;
  EXPECT_EQ(depot.find_in_list(4, 1, never), nullptr);
  depot.put_last(&own[1]);
  depot.for_each_partial(0, 1, slots_in_span, [&visited](const span*) { return ++visited != 0; });
  EXPECT_EQ(visited, 1U + 2U);
  depot.validate();
  depot.change_free_count(&inherited[1], slots_in_span / 8);
  EXPECT_EQ(depot.sparsest(), &inherited[1]) << "it has changed";
  for (own_span& s : own) depot.remove(&s);
  depot.change_free_count(&inherited[1], -slots_in_span * 5 / 8);
  EXPECT_EQ(depot.best(), nullptr);
  depot.validate();
  depot.use_all();
  depot.validate();
  EXPECT_EQ(depot.best(), &inherited[2]);
}

TEST(slot_spans, spans_are_set_aside_in_fifteen_generations) {
  slot_spans depot;
  own_span s[20];
  for (unsigned generation = 0; generation < 20; ++generation) {
    depot.adopt(&s[generation]);
    depot.change_free_count(&s[generation], -1);
    EXPECT_EQ(depot.best(), &s[generation]);
    depot.set_aside();
    EXPECT_EQ(depot.best() == nullptr, generation < 15);
    depot.validate();
  }
  for (own_span& each : s) depot.remove(&each);
  depot.validate();
}

TEST(slot_spans, extends_a_span_of_any_list) {
  for (const int taken : {0, 1, int{slots_in_span}}) {
    slot_spans depot;
    own_span s;
    depot.adopt(&s);
    if (taken != 0) depot.change_free_count(&s, -taken);
    depot.extend(&s, 2);
    EXPECT_EQ(s.capacity, slots_in_span + 2);
    EXPECT_EQ(depot.spare_count(), 0U);
    EXPECT_EQ(depot.free_slots(), slots_in_span - taken);
    EXPECT_EQ(depot.taken(), static_cast<std::size_t>(taken) + 2);
  }
}

TEST(slot_depot, drains_while_much_lies_free_in_spans_partly_used) {
  slot_depot depot;
  own_span spans[8];
  const std::size_t size = 64 * kib;
  for (own_span& s : spans) depot.spans.adopt(&s);
  depot.review(size);
  EXPECT_FALSE(depot.draining()) << "drains because of spare spans";
  for (own_span& s : spans) depot.spans.change_free_count(&s, -slots_in_span);
  depot.review(size);
  EXPECT_FALSE(depot.draining()) << "drains though no object is free";
  for (own_span& s : spans) depot.spans.change_free_count(&s, slots_in_span / 2);
  depot.review(size);
  EXPECT_TRUE(depot.draining());
  depot.review(8);
  EXPECT_FALSE(depot.draining()) << "drains because of few bytes";
  depot.review(size);
  for (own_span& s : spans) depot.spans.change_free_count(&s, -slots_in_span / 2);
  depot.review(size);
  EXPECT_FALSE(depot.draining());
}

TEST(slot_depot, what_was_inherited_does_not_make_it_drain) {
  slot_depot depot;
  own_span spans[8];
  const std::size_t size = 64 * kib;
  for (own_span& s : spans) {
    depot.spans.adopt(&s);
    depot.spans.change_free_count(&s, -slots_in_span / 2);
  }
  depot.inherited = static_cast<std::uint32_t>(depot.spans.free_slots());
  depot.review(size);
  EXPECT_FALSE(depot.draining());
  EXPECT_FALSE(depot.sparse);
  depot.inherited = 0;
  depot.review(size);
  EXPECT_TRUE(depot.draining());
  EXPECT_TRUE(depot.sparse);
}

TEST(slot_spans, finds_a_broken_invariant) {
  slot_spans spans(true);
  own_span spare;
  own_span partial;
  own_span taken;
  for (own_span* s : {&spare, &partial, &taken}) spans.adopt(s);
  spans.change_free_count(&partial, -5);
  spans.change_free_count(&taken, -slots_in_span);
  spans.validate();
  const auto expect_broken = [&](const std::string& equation) {
    EXPECT_TARN_ABORT(spans.validate(),
                      testing_support::literally("broken invariant of slot_spans: " + equation), &spans);
  };
  partial.free_objects = 1;
  expect_broken("number_of(s) == i && list_of(s) == i");
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
  expect_broken("is_spare(s) && s->free_objects == s->capacity");
  spare.free_objects = slots_in_span;
  access::spare_count(spans).store(2);
  expect_broken("spare_count() == spares");
  access::spare_count(spans).store(1);
  access::spare_bytes(spans) += 1;
  expect_broken("spare_bytes() == bytes");
  access::spare_bytes(spans) -= 1;
  access::spare_low(spans).end_period(2);
  expect_broken("spare_low_.lowest() <= spare_count()");
  access::spare_low(spans).end_period(0);
  taken.free_objects = 1;
  expect_broken("number_of(s) == no_list && s->free_objects == 0");
  taken.free_objects = 0;
  --taken.capacity;
  expect_broken("!lists_full_ || full_slots_ == full");
}

TEST(slot_spans, finds_a_span_that_was_removed_twice) {
  slot_spans spans;
  own_span partial;
  own_span taken;
  for (own_span* s : {&partial, &taken}) spans.adopt(s);
  spans.change_free_count(&partial, -5);
  spans.change_free_count(&taken, -slots_in_span);
  spans.remove(&taken);
  spans.validate();
  spans.remove(&taken);
  EXPECT_BROKEN(spans.validate(), "slot_spans", "slots_ >= slots", &spans);
}

#if TARN_CHECKS
TEST(slot_depot, a_guard_checks_what_its_lock_guards) {
  slot_depot depot;
  access::spare_low(depot.spans).end_period(1);
  EXPECT_BROKEN(
      for (unsigned i = 0; i < os::check_interval; ++i) { os::lock_guard guard(depot.lock, depot); },
      "slot_spans", "spare_low_.lowest() <= spare_count()", &depot.spans);
}
#endif

}  // namespace
}  // namespace tarn
