// SPDX-License-Identifier: MIT
// pool_shard: slots between its spans and bins, and spans that change the shard. What it does as any depot does:
// slot_fronts_test. Idle pages: pool_shard_purge_test.
#include "fronts/pools/pool_shard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "broken_invariant.hpp"
#include "own_pool.hpp"

namespace tarn {
namespace {

using testing_support::own_pool;
using access = pool_shard_test_access;
using slots = own_pool::slots;
using source = pool_shard::source;

span* span_of(const void* slot) { return engine::map.span_of(address_of(slot)); }

// A pool of two shards with slots of 64 bytes, 128 in its first spans.
class pool_shard_test : public testing::Test {
 protected:
  static constexpr std::size_t size = 64;
  static constexpr std::size_t in_span = slot_layout::least_span_bytes / size;

  // Adds spans of `in_span` slots to the first shard.
  void add_spans(std::size_t count) {
    ASSERT_TRUE(own_.pool.reserve(count * in_span));
    ASSERT_EQ(own_.pool.bytes(), count * slot_layout::least_span_bytes);
  }
  void expect_broken(const std::string& equation) {
    EXPECT_TARN_ABORT(first_.validate_locked(),
                      testing_support::literally("broken invariant of pool_shard: " + equation), &first_);
  }

  own_pool own_{size, 2};
  pool_shard& first_ = own_.pool.assign_shard_locked();
  pool_shard& second_ = own_.pool.assign_shard_locked();
};

TEST_F(pool_shard_test, finds_a_broken_invariant) {
  const slots taken = own_.get(first_, 10);
  first_.validate_locked();
  span* const s = access::carving(first_);
  ASSERT_NE(s, nullptr);
  s->owner.store(nullptr);
  expect_broken("s.owner.load(std::memory_order_relaxed) == this");
  s->owner.store(&first_);
  s->capacity--;
  EXPECT_BROKEN(first_.validate_locked(), "slot_spans", "!lists_full_ || full_slots_ == full", &first_.spans);
  s->capacity++;
  s->free_bits[0] |= 1;
  EXPECT_BROKEN(first_.validate_locked(), "objects", "s->free_objects == count_free(s)", s);
  s->free_bits[0] &= ~std::uint64_t{1};
  access::carving(first_) = nullptr;
  expect_broken("s.capacity == pool_.slots_in(&s) || s.capacity == 0 || &s == carving");
  access::carving(first_) = s;
  own_.give(taken);
}

// ---- slots ----

TEST_F(pool_shard_test, fresh_slots_come_in_the_order_of_their_addresses) {
  add_spans(1);
  const slots taken = own_.take(first_, 20, source::fresh);
  ASSERT_EQ(taken.size(), 20U);
  for (std::size_t i = 1; i < taken.size(); ++i)
    EXPECT_EQ(address_of(taken[i]), address_of(taken[i - 1]) + size);
  EXPECT_EQ(first_.taken(), 20U);
  EXPECT_EQ(first_.peak(), 20U);
  own_.give(taken);
  EXPECT_EQ(first_.taken(), 0U);
  EXPECT_EQ(first_.peak(), 20U);
}

TEST_F(pool_shard_test, a_shard_without_slots_gives_none) {
  EXPECT_TRUE(own_.take(first_, 5, source::used).empty());
  EXPECT_TRUE(own_.take(first_, 5, source::fresh).empty());
  EXPECT_EQ(first_.ready(), 0U);
  EXPECT_EQ(first_.take_empty_span(0), nullptr);
  EXPECT_EQ(first_.take_any_span(), nullptr);
  EXPECT_EQ(first_.take_fresh_span(), nullptr);
  EXPECT_EQ(first_.take_full(), nullptr);
  EXPECT_EQ(first_.take_to_put_back(), nullptr);
}

// A thread that has found no used slot carves fresh ones after it has released the lock; others may free all slots of
// the span in between.
TEST_F(pool_shard_test, carves_a_span_whose_slots_have_all_been_freed) {
  slots taken = own_.get(first_, 10);
  span* const s = access::carving(first_);
  ASSERT_NE(s, nullptr);
  own_.give(taken);
  EXPECT_TRUE(slot_spans::is_spare(s));
  EXPECT_EQ(first_.spare_bytes(), s->bytes());
  taken = own_.take(first_, 10, source::fresh);
  EXPECT_EQ(taken.size(), 10U);
  EXPECT_EQ(s->capacity, 20U);
  EXPECT_EQ(first_.spare_bytes(), 0U);
  EXPECT_EQ(first_.taken(), 10U);
  own_.give(taken);
}

TEST_F(pool_shard_test, tells_how_many_slots_it_can_hand_out) {
  add_spans(3);
  EXPECT_EQ(first_.ready(), 3 * in_span);
  slots some = own_.take(first_, 10, source::fresh);
  EXPECT_EQ(first_.ready(), 3 * in_span - 10);
  own_.give(slots(some.begin(), some.begin() + 4));
  EXPECT_EQ(first_.ready(), 3 * in_span - 6);
  own_.give(slots(some.begin() + 4, some.end()));
  EXPECT_EQ(first_.ready(), 3 * in_span);
  some = own_.take_all(first_);
  EXPECT_EQ(some.size(), 3 * in_span);
  EXPECT_EQ(first_.ready(), 0U);
  own_.give(some);
}

// Moves the slots that it does not take back, with their spans, to the front, in their order.
TEST_F(pool_shard_test, slots_of_another_shard_are_left_to_the_caller) {
  const slots mine = own_.get(first_, 3);
  const slots theirs = own_.get(second_, 2);
  void* const mixed[] = {theirs[0], mine[0], mine[1], theirs[1], mine[2]};
  span* owners[5];
  for (std::size_t i = 0; i < 5; ++i) owners[i] = span_of(mixed[i]);
  void* others[5];
  bool drains = true;
  EXPECT_EQ(first_.put(mixed, owners, 5, others, drains), 2U);
  EXPECT_FALSE(drains);
  EXPECT_EQ(slots(others, others + 2), theirs);
  EXPECT_TRUE(owners[0] == span_of(theirs[0]) && owners[1] == span_of(theirs[1]));
  EXPECT_EQ(first_.taken(), 0U);
  EXPECT_EQ(second_.taken(), 2U);
  own_.give(theirs);
}

TEST_F(pool_shard_test, what_is_no_taken_slot_is_not_taken_back) {
  const slots taken = own_.get(first_, 3);
  const std::string twice =
      "double destroy, detected when the object returned to its span, in the pool of " + own_.name;
  void* const never = static_cast<char*>(taken[0]) + 3 * size;
  EXPECT_TARN_ABORT(own_.give({never}), twice, never);
  void* const inside = static_cast<char*>(taken[1]) + 4;
  EXPECT_TARN_ABORT(own_.give({inside}),
                    "destroy of a pointer into an object, not to its start, in the pool of " + own_.name,
                    inside);
  own_.give(taken);
}

TEST_F(pool_shard_test, magazines_are_short_while_much_is_free_in_used_spans) {
  slots all = own_.get(first_, 20000);
  std::sort(all.begin(), all.end());
  const auto is_kept = [&](const void* slot) { return span_of(slot)->start == address_of(slot); };
  const auto end = std::partition(all.begin(), all.end(), is_kept);
  const slots freed(end, all.end());
  all.erase(end, all.end());
  EXPECT_FALSE(first_.draining());
  own_.give(freed);
  EXPECT_TRUE(first_.draining());
  EXPECT_EQ(first_.most_while_draining(), std::max<std::size_t>(all.size() / 256, 1));
  own_.give(all);
}

// ---- spans ----

TEST_F(pool_shard_test, without_free_slots_no_span_moves) {
  EXPECT_FALSE(first_.move_span_to(second_));
  const slots taken = own_.get(first_, 128);
  EXPECT_FALSE(first_.move_span_to(second_));
  own_.give(taken);
}

TEST_F(pool_shard_test, an_empty_span_moves_first_then_that_with_the_most_free_slots) {
  add_spans(3);
  const slots all = own_.take_all(first_);
  ASSERT_EQ(all.size(), 3 * in_span);
  own_.give(slots(all.begin(), all.begin() + in_span));              // the whole of the first
  own_.give({all[in_span]});                                         // one of the second
  own_.give(slots(all.end() - in_span, all.end() - in_span + 100));  // 100 of the third
  ASSERT_TRUE(first_.move_span_to(second_));
  EXPECT_EQ(span_of(all[0])->owner.load(), &second_);
  EXPECT_EQ(first_.spare_bytes(), 0U);
  EXPECT_EQ(second_.spare_bytes(), slot_layout::least_span_bytes);
  EXPECT_EQ(own_.pool.spare_bytes.load(), slot_layout::least_span_bytes);
  ASSERT_TRUE(first_.move_span_to(second_));
  EXPECT_EQ(span_of(all.back())->owner.load(), &second_);
  EXPECT_EQ(first_.taken(), in_span - 1);
  EXPECT_EQ(second_.taken(), in_span - 100);
  EXPECT_EQ(second_.ready(), in_span + 100);
  own_.pool.validate();
  ASSERT_TRUE(second_.move_span_to(first_)) << "to the shard of the lower index";
  EXPECT_EQ(span_of(all[0])->owner.load(), &first_);
  own_.pool.validate();
  own_.give(slots(all.begin() + in_span + 1, all.begin() + 2 * in_span));
  own_.give(slots(all.end() - in_span + 100, all.end()));
}

TEST_F(pool_shard_test, the_shard_to_which_a_span_has_moved_carves_on) {
  const slots taken = own_.get(first_, 10);
  own_.give(slots(taken.begin(), taken.begin() + 9));
  span* const s = access::carving(first_);
  ASSERT_TRUE(first_.move_span_to(second_));
  EXPECT_EQ(access::carving(first_), nullptr);
  EXPECT_EQ(access::carving(second_), s);
  const slots fresh = own_.take(second_, 1, source::fresh);
  ASSERT_EQ(fresh.size(), 1U);
  EXPECT_EQ(address_of(fresh[0]), address_of(taken.back()) + size);
  own_.give({fresh[0], taken.back()});
}

TEST_F(pool_shard_test, a_span_moves_while_the_pages_of_its_free_slots_are_dropped) {
  if (os::system_page_size() != 4096) GTEST_SKIP() << "the pages are longer";
  add_spans(1);
  const slots all = own_.take_all(first_);
  ASSERT_EQ(all.size(), in_span);
  own_.give(slots(all.begin(), all.begin() + 100));
  access::idle_slots idle(first_);
  ASSERT_EQ(idle.held.count(), 100U);
  EXPECT_FALSE(first_.move_span_to(second_)) << "none of its slots can be handed out";
  own_.give({all[100]});
  ASSERT_TRUE(first_.move_span_to(second_));
  idle.give_back();
  first_.validate_locked();
  own_.pool.validate();
  EXPECT_EQ(first_.taken(), 0U);
  EXPECT_EQ(second_.ready(), 101U);
  own_.give(slots(all.begin() + 101, all.end()));
}

TEST_F(pool_shard_test, a_slot_that_is_freed_again_while_its_page_is_dropped_ends_the_process) {
  if (os::system_page_size() != 4096) GTEST_SKIP() << "the pages are longer";
  const slots all = own_.get(first_, in_span);
  own_.give(slots(all.begin(), all.begin() + 100));
  access::idle_slots idle(first_);
  ASSERT_EQ(idle.held.count(), 100U);
  const auto free_again = [&] {
    own_.give({all[3]});
    idle.give_back();
  };
  EXPECT_TARN_ABORT(
      free_again(),
      "double destroy, detected when the object returned to its span, in the pool of " + own_.name, all[3]);
  idle.give_back();
  EXPECT_EQ(first_.taken(), in_span - 100);
  own_.give(slots(all.begin() + 100, all.end()));
}

TEST_F(pool_shard_test, a_shard_carves_one_span_at_a_time) {
  const slots mine = own_.get(first_, 10);
  const slots theirs = own_.get(second_, 10);
  own_.give(slots(mine.begin() + 1, mine.end()));
  EXPECT_FALSE(first_.move_span_to(second_));
  own_.pool.validate();
  own_.give({mine[0]});
  own_.give(theirs);
}

TEST_F(pool_shard_test, a_shard_without_threads_spares_its_spans) {
  EXPECT_FALSE(first_.can_spare());
  --first_.bins;
  EXPECT_TRUE(first_.can_spare());
  ++first_.bins;
}

TEST_F(pool_shard_test, empty_spans_leave_it_down_to_what_is_to_be_kept) {
  add_spans(3);
  const slots all = own_.take_all(first_);
  own_.give(slots(all.begin(), all.begin() + 2 * in_span));
  EXPECT_EQ(first_.take_empty_span(2 * slot_layout::least_span_bytes), nullptr);
  for (int left = 2; left != 0; --left) {
    span* const s = first_.take_empty_span(0);
    ASSERT_NE(s, nullptr);
    EXPECT_EQ(s->state.load(), span_state::purging);
    pool_core_test_access::destroy(own_.pool, s);
    EXPECT_EQ(first_.spare_bytes(), (left - 1) * slot_layout::least_span_bytes);
  }
  EXPECT_EQ(first_.take_empty_span(0), nullptr);
  own_.give(slots(all.begin() + 2 * in_span, all.end()));
}

TEST_F(pool_shard_test, a_fresh_span_leaves_it_only_if_none_is_to_be_kept) {
  add_spans(1);
  EXPECT_EQ(first_.take_empty_span(1), nullptr);
  span* const s = first_.take_empty_span(0);
  ASSERT_NE(s, nullptr);
  pool_core_test_access::destroy(own_.pool, s);
  EXPECT_EQ(own_.pool.bytes(), 0U);
}

TEST_F(pool_shard_test, all_spans_leave_it_also_those_with_live_objects) {
  add_spans(4);
  const slots all = own_.take_all(first_);
  own_.give(slots(all.begin(), all.begin() + in_span));                    // empty
  own_.give(slots(all.begin() + in_span, all.begin() + 2 * in_span - 1));  // partly used
  const slots carved = own_.get(second_, 5);
  for (pool_shard* const shard : {&first_, &second_}) {
    while (span* const s = shard->take_any_span()) pool_core_test_access::destroy(own_.pool, s);
    EXPECT_EQ(shard->taken(), 0U);
    EXPECT_EQ(shard->ready(), 0U);
  }
  EXPECT_EQ(own_.pool.bytes(), 0U);
}

}  // namespace
}  // namespace tarn
