// SPDX-License-Identifier: MIT
// slot_fronts: what all fronts do with the depots of a slot class, run over a size class of malloc and a typed pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "own_pool.hpp"
#include "slots/central_fixture.hpp"

namespace tarn {
namespace {

using slots = std::vector<void*>;

// The class of 64 bytes of a separate engine.
class malloc_front {
 public:
  static constexpr unsigned size_class = testing_support::small;
  static constexpr const char* freed_twice = "double free, detected when the block returned to its span";

  slot_depot& depot() { return central_.depots().at(size_class); }
  page_map& map() { return engine_->map; }
  std::size_t magazine_length() { return class_info(size_class).magazine; }
  magazine* new_magazine(std::size_t length) {
    return central_.magazines().allocate(engine_->metadata, magazine_store::index_for(length));
  }
  void end(magazine* m) { central_.magazines().deallocate(m); }
  std::size_t refill(magazine* m, std::size_t most) { return central_.refill(size_class, m, most); }
  void give(slots all) {
    for (std::size_t i = 0; i < all.size(); i += largest_magazine)
      central_.flush(size_class, all.data() + i, std::min(largest_magazine, all.size() - i));
  }
  bool give_full(magazine* m, magazine*& empty) { return central_.give_full(size_class, m, 0, &empty); }
  magazine* take_full() { return central_.take_full(size_class); }
  // The front keeps the magazine, or it ends.
  void leave_empty(magazine* m) {
    if (!central_.leave_empty(size_class, m)) end(m);
  }
  void end_period() { central_.flush_idle_magazines(false); }
  void put_back_waiting() { central_.flush_idle_magazines(true); }
  std::size_t waiting() { return central_.handover_bytes() / class_info(size_class).size; }
  void validate() { central_.depots().validate(); }

 private:
  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  central& central_ = engine_->central_tier;
};

class pool_front {
 public:
  static constexpr const char* freed_twice =
      "double destroy, detected when the object returned to its span, in the pool of own pool";

  slot_depot& depot() { return shard_; }
  page_map& map() { return engine::map; }
  std::size_t magazine_length() { return pool_.most_in_magazine(); }
  magazine* new_magazine(std::size_t length) {
    magazine* all = pool_magazine::allocate_some(length);
    magazine* const m = chain::pop(all);
    while (magazine* const other = chain::pop(all)) end(other);
    return m;
  }
  void end(magazine* m) { pool_magazine::deallocate(m); }
  std::size_t refill(magazine* m, std::size_t most) { return pool_.refill(shard_, m, most); }
  void give(const slots& all) { own_.give(all); }
  bool give_full(magazine* m, magazine*& empty) { return pool_core::give_full(m, empty); }
  magazine* take_full() { return shard_.take_full(); }
  void leave_empty(magazine* m) { shard_.leave_empty(m); }
  void end_period() {
    pool_.put_back_waiting(shard_, false);
    shard_.end_idle_empties(false, pool_magazine::deallocate);
  }
  void put_back_waiting() { pool_.put_back_waiting(shard_, true); }
  std::size_t waiting() { return pool_.waiting(); }
  void validate() { pool_.validate(); }

 private:
  testing_support::own_pool own_{64};
  tarn_pool& pool_ = own_.pool;
  pool_shard& shard_ = pool_.assign_shard_locked();
};

template <class Front>
class slot_fronts : public testing::Test {
 protected:
  // In the order in which a bin would hand them out.
  slots take(std::size_t count) {
    slots out;
    while (out.size() < count) {
      magazine* const m = front_.new_magazine(front_.magazine_length());
      const std::size_t got = front_.refill(m, std::min(count - out.size(), front_.magazine_length()));
      EXPECT_NE(got, 0U);
      for (std::size_t slot = got; slot != 0; --slot) out.push_back(m->slots[slot]);
      m->count = 0;
      front_.end(m);
      if (got == 0) break;
    }
    return out;
  }
  magazine* full_magazine() {
    const slots some = take(front_.magazine_length());
    magazine* const m = front_.new_magazine(front_.magazine_length());
    std::copy(some.begin(), some.end(), m->bottom());
    m->count = static_cast<std::uint16_t>(some.size());
    return m;
  }
  // All slots of the magazine go back to their spans.
  void give(magazine* m) {
    front_.give(slots(m->bottom(), m->bottom() + m->count));
    m->count = 0;
    front_.end(m);
  }
  void leave(magazine* m) {
    if (m != nullptr) front_.leave_empty(m);
  }
  span* span_of(const void* slot) { return front_.map().span_of(address_of(slot)); }
  static constexpr std::size_t in_span = 8 * kib / 64;
  Front front_;
};

using fronts = testing::Types<malloc_front, pool_front>;
TYPED_TEST_SUITE(slot_fronts, fronts);

TYPED_TEST(slot_fronts, what_comes_back_is_taken_again_in_the_order_of_addresses) {
  const slots all = this->take(this->in_span);
  const slots some = {all[9], all[3], all[70]};
  this->front_.give(some);
  slots again = this->take(3);
  if (!hardened_build) {
    EXPECT_EQ(again, (slots{all[3], all[9], all[70]}));
  }
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, (slots{all[3], all[9], all[70]}));
  this->front_.give(all);
  this->front_.validate();
}

TYPED_TEST(slot_fronts, the_fullest_span_is_used_first_and_an_empty_one_last) {
  const slots all = this->take(3 * this->in_span);
  const auto span_at = [&](std::size_t i) {
    return all.begin() + static_cast<std::ptrdiff_t>(i * this->in_span);
  };
  this->front_.give(slots(span_at(0), span_at(1)));
  this->front_.give(slots(span_at(1), span_at(2) - 10));
  this->front_.give({all.back()});
  EXPECT_EQ(this->front_.depot().spare_bytes(), 8 * kib);
  EXPECT_EQ(this->take(1), slots{all.back()});
  const slots second = this->take(this->in_span - 10);
  for (const void* slot : second) EXPECT_EQ(this->span_of(slot), this->span_of(*span_at(1)));
  EXPECT_EQ(this->front_.depot().spare_count(), 1U);
  const slots first = this->take(1);
  EXPECT_EQ(this->span_of(first[0]), this->span_of(all[0]));
  EXPECT_EQ(this->front_.depot().spare_bytes(), 0U);
  this->front_.give(first);
  this->front_.give(second);
  this->front_.give(slots(span_at(2) - 10, all.end()));
  this->front_.validate();
}

TYPED_TEST(slot_fronts, a_slot_that_is_in_its_span_is_not_taken_back) {
  const slots all = this->take(3);
  this->front_.give({all[1]});
  EXPECT_DEATH(this->front_.give({all[0], all[1]}), TypeParam::freed_twice);
  this->front_.give({all[0], all[2]});
}

TYPED_TEST(slot_fronts, full_magazines_wait_up_to_a_limit_and_the_last_is_taken_first) {
  std::vector<magazine*> given;
  for (;;) {
    magazine* const m = this->full_magazine();
    magazine* empty = nullptr;
    if (!this->front_.give_full(m, empty)) {
      this->give(m);
      break;
    }
    this->leave(empty);
    given.push_back(m);
    ASSERT_LE(given.size(), 4096U) << "there is no limit";
  }
  EXPECT_GE(given.size(), 2U);
  EXPECT_EQ(this->front_.waiting(), given.size() * this->front_.magazine_length());
  EXPECT_EQ(this->front_.take_full(), given.back());
  EXPECT_EQ(this->front_.waiting(), (given.size() - 1) * this->front_.magazine_length());
  this->give(given.back());
  this->front_.put_back_waiting();
  EXPECT_EQ(this->front_.take_full(), nullptr);
}

TYPED_TEST(slot_fronts, full_magazines_that_nobody_needed_for_a_period_go_back_to_their_spans) {
  magazine* const m = this->full_magazine();
  magazine* empty = nullptr;
  ASSERT_TRUE(this->front_.give_full(m, empty));
  this->leave(empty);
  this->front_.end_period();
  EXPECT_NE(this->front_.waiting(), 0U) << "handed over in this period";
  this->front_.end_period();
  EXPECT_EQ(this->front_.waiting(), 0U);
  EXPECT_EQ(this->front_.depot().taken_hint.load(), 0U);
}

TYPED_TEST(slot_fronts, who_leaves_a_full_magazine_gets_an_empty_one) {
  magazine* const full[] = {this->full_magazine(), this->full_magazine()};
  magazine* empty = nullptr;
  ASSERT_TRUE(this->front_.give_full(full[0], empty));
  EXPECT_EQ(empty, nullptr);
  magazine* const left = this->front_.new_magazine(this->front_.magazine_length());
  left->count = 5;
  this->front_.leave_empty(left);
  EXPECT_EQ(left->count, 0U);
  ASSERT_TRUE(this->front_.give_full(full[1], empty));
  EXPECT_EQ(empty, left);
  EXPECT_EQ(this->front_.depot().empty_hint(), 0U);
  this->leave(empty);
  this->front_.put_back_waiting();
}

TYPED_TEST(slot_fronts, few_empty_magazines_are_kept_and_those_that_nobody_needs_end) {
  slot_depot& depot = this->front_.depot();
  this->front_.leave_empty(this->front_.new_magazine(1));
  EXPECT_EQ(depot.empty_hint(), 0U) << "too short for some givers";
  std::vector<magazine*> made;
  for (int i = 0; i < 2000; ++i) made.push_back(this->front_.new_magazine(this->front_.magazine_length()));
  for (magazine* const m : made) this->front_.leave_empty(m);
  const std::uint32_t kept = depot.empty_hint();
  EXPECT_LT(kept, 2000U) << "there is no limit";
  this->front_.end_period();
  EXPECT_EQ(depot.empty_hint(), kept) << "they were left in this period";
  this->front_.end_period();
  EXPECT_EQ(depot.empty_hint(), 0U);
}

// A single slot in a magazine may keep a span in use.
TYPED_TEST(slot_fronts, while_much_is_free_in_used_spans_no_magazine_waits) {
  slots all = this->take(4 * mib / 64);
  magazine* const m = this->full_magazine();
  magazine* empty = nullptr;
  ASSERT_TRUE(this->front_.give_full(m, empty));
  this->leave(empty);
  slots freed, kept;
  for (std::size_t i = 0; i < all.size(); ++i) (i % 2 == 0 ? kept : freed).push_back(all[i]);
  this->front_.give(freed);
  EXPECT_TRUE(this->front_.depot().draining());
  EXPECT_EQ(this->front_.waiting(), 0U);
  magazine* const other = this->full_magazine();
  EXPECT_FALSE(this->front_.give_full(other, empty));
  this->give(other);
  this->front_.give(kept);
  EXPECT_FALSE(this->front_.depot().draining());
  this->front_.validate();
}

}  // namespace
}  // namespace tarn
