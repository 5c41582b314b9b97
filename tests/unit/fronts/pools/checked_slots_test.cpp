// SPDX-License-Identifier: MIT
// checked_slots: the records of a checked pool's slots. The messages about misuse by public functions: pools_death.
#include "fronts/pools/checked_slots.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "broken_invariant.hpp"
#include "os/memory_marks.hpp"
#include "own_pool.hpp"

namespace tarn {
namespace {

using testing_support::own_pool;
using testing_support::request_of;

constexpr std::size_t size = 48;

tarn_pool_options checked_request() {
  tarn_pool_options request = request_of(size);
  request.checked = true;
  return request;
}

// A checked pool with a slot that is taken, but not handed out.
class checked_slots_test : public testing::Test {
 protected:
  ~checked_slots_test() override { own_.give(taken_); }

  own_pool own_{checked_request()};
  tarn_pool& pool_ = own_.pool;
  const own_pool::slots taken_ = own_.get(pool_.first_shard(), 1);
  void* const slot_ = taken_.at(0);
};

TEST_F(checked_slots_test, a_slot_is_live_from_hand_out_to_take_back) {
  EXPECT_TARN_ABORT(checked_slots::check(&pool_, slot_, "use"), "double use of " + own_.name, slot_);
  checked_slots::hand_out(pool_, slot_);
  EXPECT_EQ(&checked_slots::check(&pool_, slot_, "use"), &pool_);
  EXPECT_EQ(&checked_slots::check(nullptr, slot_, "use"), &pool_);
  EXPECT_EQ(&checked_slots::take_back(nullptr, slot_), &pool_);
  EXPECT_TARN_ABORT(checked_slots::take_back(&pool_, slot_), "double destroy of " + own_.name, slot_);
}

TEST_F(checked_slots_test, a_slot_that_comes_back_is_filled) {
  checked_slots::hand_out(pool_, slot_);
  auto* const bytes = static_cast<unsigned char*>(slot_);
  std::fill_n(bytes, size, 1);
  checked_slots::take_back(&pool_, slot_);
  memory_marks::unpoison(slot_, size);
  EXPECT_EQ(std::count(bytes, bytes + size, checked_slots::pattern), static_cast<std::ptrdiff_t>(size));
}

TEST_F(checked_slots_test, a_write_to_any_byte_is_found_when_the_slot_is_handed_out_again) {
  auto* const bytes = static_cast<unsigned char*>(slot_);
  for (std::size_t i = 0; i < size; ++i) {
    checked_slots::hand_out(pool_, slot_);
    checked_slots::take_back(&pool_, slot_);
    memory_marks::unpoison(slot_, size);
    if (i % 47 == 0) {  // the first byte and the last
      bytes[i] ^= 1;
      EXPECT_TARN_ABORT(
          checked_slots::hand_out(pool_, slot_),
          "write after destroy of " + own_.name + ", detected when its memory was allocated again", slot_);
      bytes[i] ^= 1;
    }
  }
}

TEST_F(checked_slots_test, a_fresh_slot_may_hold_anything) {
  memory_marks::unpoison(slot_, size);
  std::fill_n(static_cast<unsigned char*>(slot_), size, 1);
  checked_slots::hand_out(pool_, slot_);
  checked_slots::take_back(&pool_, slot_);
}

TEST_F(checked_slots_test, an_object_of_an_unchecked_pool) {
  own_pool unchecked(request_of(size));
  const own_pool::slots other = unchecked.get(unchecked.pool.first_shard(), 1);
  EXPECT_TARN_ABORT(checked_slots::check(nullptr, other[0], "destroy"),
                    "destroy by checked code, of an object of the unchecked pool of " + unchecked.name,
                    other[0]);
  EXPECT_TARN_ABORT(checked_slots::check(&pool_, other[0], "destroy"),
                    "destroy in the pool of " + own_.name + ", of an object of the pool of " + unchecked.name,
                    other[0]);
  unchecked.give(other);
}

TEST_F(checked_slots_test, pointers_to_no_object) {
  void* const inside = static_cast<char*>(slot_) + 4;
  EXPECT_TARN_ABORT(checked_slots::check(&pool_, inside, "use"),
                    "use of a pointer into an object of " + own_.name + ", not to its start", inside);
  void* const never = static_cast<char*>(slot_) + size;
  EXPECT_TARN_ABORT(checked_slots::check(&pool_, never, "use"),
                    "use of a pointer that never was an object of " + own_.name, never);
  const span* const s = engine::map.span_of(address_of(slot_));
  void* const tail = pool_.layout().at(s, pool_.slots_in(s));
  EXPECT_TARN_ABORT(checked_slots::check(&pool_, tail, "use"),
                    "use of a pointer that never was an object of " + own_.name, tail);
  EXPECT_TARN_ABORT(checked_slots::check(&pool_, this, "use"),
                    "use in the pool of " + own_.name + ", of a pointer that is in no pool", this);
  EXPECT_TARN_ABORT(checked_slots::check(nullptr, this, "use"), "use of a pointer that is in no pool", this);
}

TEST_F(checked_slots_test, finds_a_broken_invariant) {
  checked_slots::hand_out(pool_, slot_);
  const span* const s = engine::map.span_of(address_of(slot_));
  const std::size_t book_words = objects::words(pool_.slots_in(s));
  checked_slots::validate_locked(pool_, s);
  std::uint64_t& filled = s->free_bits[2 * book_words];
  filled |= 1;  // the first slot's
  EXPECT_BROKEN(checked_slots::validate_locked(pool_, s), "checked_slots", "(live & filled) == 0", s);
  filled &= ~std::uint64_t{1};
  checked_slots::take_back(&pool_, slot_);
}

// The records lie in the span itself while they are short, and in memory of their own else.
TEST(checked_slots, the_records_of_all_slots_of_a_span_are_apart) {
  tarn_pool_options request = request_of(4);
  request.checked = true;
  own_pool own(request);
  const own_pool::slots taken = own.get(own.pool.first_shard(), 200);
  ASSERT_EQ(taken.size(), 200U);
  for (std::size_t i = 0; i < taken.size(); i += 2) checked_slots::hand_out(own.pool, taken[i]);
  const span* const s = engine::map.span_of(address_of(taken[0]));
  EXPECT_NE(s->free_bits, s->inline_bits);
  for (std::size_t i = 1; i < taken.size(); i += 2) checked_slots::hand_out(own.pool, taken[i]);
  for (std::size_t i = 0; i < taken.size(); i += 2) checked_slots::take_back(&own.pool, taken[i]);
  for (std::size_t i = 1; i < taken.size(); i += 2)
    EXPECT_EQ(&checked_slots::check(&own.pool, taken[i], "use"), &own.pool) << i;
  for (std::size_t i = 1; i < taken.size(); i += 2) checked_slots::take_back(&own.pool, taken[i]);
  own.give(taken);
}

}  // namespace
}  // namespace tarn
