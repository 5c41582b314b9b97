// SPDX-License-Identifier: MIT
// What a page heap consists of: structures in supply, spans in transit, the refused request, limits of backed bytes.
#include <gtest/gtest.h>

#include "base/retry_pause.hpp"
#include "broken_invariant.hpp"
#include "pages/backing_limits.hpp"
#include "pages/shortest_refusal.hpp"
#include "pages/span_supply.hpp"
#include "pages/spans_in_transit.hpp"

namespace tarn {

class span_supply_test_access {
 public:
  static std::uint32_t& count(span_supply& supply) { return supply.count_; }
};

class spans_in_transit_test_access {
 public:
  static std::size_t& pages(spans_in_transit& spans) { return spans.pages_; }
};

namespace {

TEST(span_supply, gives_up_what_was_not_needed_in_a_period) {
  metadata_arena metadata;
  span_supply supply;
  constexpr std::uint32_t made = span_supply::group + 300;
  EXPECT_FALSE(supply.is_ready());
  for (std::uint32_t i = 0; i < made; ++i) supply.put(supply.make(metadata));
  EXPECT_TRUE(supply.is_ready());
  EXPECT_EQ(supply.end_period(), 0U);  // they came in this period
  span* const s = supply.take();
  EXPECT_EQ(s->pages, 0U);
  EXPECT_EQ(s->state.load(), span_state::purging);
  supply.put(s);
  EXPECT_TRUE(s->is_retired());
  std::uint32_t idle = supply.end_period();
  EXPECT_EQ(idle, made - 1);
  int turns = 0;
  while ((idle = supply.give_up(idle)) != 0) ++turns;
  EXPECT_EQ(turns, 1);  // 256 structures at a time
  supply.validate();
  std::uint32_t left = 0;
  while (supply.take() != nullptr) ++left;
  EXPECT_EQ(left, span_supply::group + 1);
}

// Another thread may be reading a structure that it has found by a stale entry of the page map.
TEST(span_supply, what_is_made_again_is_retired_and_not_written) {
  metadata_arena metadata;
  span_supply supply;
  constexpr std::uint32_t made = span_supply::group + 1;
  span* all[made];
  for (span*& s : all) s = supply.make(metadata);
  for (span* s : all) s->borders = 7;
  for (span* s : all) supply.put(s);
  supply.end_period();
  EXPECT_EQ(supply.give_up(supply.end_period()), 0U);  // the one that was put last
  span* const again = supply.make(metadata);
  EXPECT_EQ(again, all[made - 1]);
  EXPECT_TRUE(again->is_retired());
  EXPECT_EQ(again->borders, 7);
}

TEST(span_supply, a_forked_child_keeps_what_it_has_inherited) {
  metadata_arena metadata;
  span_supply supply;
  for (std::uint32_t i = 0; i < 600; ++i) supply.put(supply.make(metadata));
  supply.forget_holds();
  EXPECT_FALSE(supply.has_many());
  for (std::uint32_t i = 0; i < 100; ++i) supply.put(supply.make(metadata));
  EXPECT_EQ(supply.end_period(), 0U);
  EXPECT_EQ(supply.end_period(), 100U) << "its own";
  for (std::uint32_t i = 0; i < 300; ++i) ASSERT_NE(supply.take(), nullptr);
  for (std::uint32_t i = 0; i < 300; ++i) supply.put(supply.make(metadata));
  EXPECT_EQ(supply.end_period(), 0U) << "those that stayed were inherited";
  EXPECT_EQ(supply.end_period(), 300U);
  supply.validate();
}

TEST(span_supply, finds_a_broken_invariant) {
  metadata_arena metadata;
  span_supply supply;
  supply.put(supply.make(metadata));
  supply.validate();
  span_supply_test_access::count(supply) = 2;
  EXPECT_BROKEN(supply.validate(), "span_supply", "count_ == length", &supply);
  span_supply_test_access::count(supply) = 1;
  supply.end_period();
  ASSERT_NE(supply.take(), nullptr);
  supply.validate();
}

TEST(spans_in_transit, knows_pages_and_thread) {
  spans_in_transit spans;
  span one;
  span two;
  one.pages = 3;
  two.pages = 4;
  int thread = 0;
  EXPECT_FALSE(spans.may_return());
  spans.add(&one, &thread);
  spans.add(&two, &thread);
  EXPECT_EQ(spans.front(), &one);
  EXPECT_EQ(one.next, &two);
  EXPECT_EQ(spans.pages(), 7U);
  EXPECT_EQ(one.owner.load(), &thread);
  EXPECT_TRUE(spans.may_return());
  spans.set_lost(true);
  EXPECT_FALSE(spans.may_return());
  spans.remove(&one);
  EXPECT_EQ(one.owner.load(), nullptr);
  spans.validate();
  ++spans_in_transit_test_access::pages(spans);
  EXPECT_BROKEN(spans.validate(), "spans_in_transit", "pages_ == sum", &spans);
}

TEST(shortest_refusal, is_the_shortest_since_a_span_became_free) {
  shortest_refusal refused;
  EXPECT_FALSE(refused.may_cover(SIZE_MAX - 1));
  refused.note(100, 7);
  refused.note(200, 7);
  EXPECT_TRUE(refused.may_cover(100));
  EXPECT_FALSE(refused.may_cover(99));
  EXPECT_TRUE(refused.holds_at(7));
  EXPECT_FALSE(refused.holds_at(8));
  refused.note(300, 8);
  EXPECT_FALSE(refused.may_cover(200));
  refused.forget();
  EXPECT_FALSE(refused.may_cover(300));
}

TEST(retry_pause, doubles_with_each_refusal_and_ends_with_a_success) {
  retry_pause pause;
  for (std::uint32_t length = 1; length <= retry_pause::longest; length *= 2) {
    ASSERT_TRUE(pause.is_over());
    pause.end_period_with_try(true);
    for (std::uint32_t i = 0; i < length; ++i) {
      EXPECT_FALSE(pause.is_over()) << length;
      pause.end_period();
    }
  }
  pause.end_period_with_try(true);
  for (std::uint32_t i = 0; i < retry_pause::longest; ++i) pause.end_period();
  EXPECT_TRUE(pause.is_over());
  pause.end_period_with_try(false);
  EXPECT_TRUE(pause.is_over());
}

TEST(backing_limits, tries_again_with_twice_as_many_free_bytes) {
  backing_limits limits;
  EXPECT_TRUE(limits.may_try(0));
  limits.note_kept_free(1000);
  EXPECT_FALSE(limits.may_try(1999));
  EXPECT_TRUE(limits.may_try(2000));
  limits.set_mark(5);
  EXPECT_FALSE(limits.is_beyond_mark(5));
  EXPECT_TRUE(limits.is_beyond_mark(6));
}

}  // namespace
}  // namespace tarn
