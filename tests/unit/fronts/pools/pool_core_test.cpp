// SPDX-License-Identifier: MIT
// pool_core: its invariants, where a refill takes slots from, and the limit of a pool's bytes.
#include "fronts/pools/pool_core.hpp"

#include <gtest/gtest.h>

#include <string>

#include "broken_invariant.hpp"
#include "own_pool.hpp"

namespace tarn {
namespace {

using testing_support::own_pool;
using testing_support::request_of;
using access = pool_core_test_access;

TEST(pool_core, finds_a_broken_invariant) {
  own_pool own(64);
  tarn_pool& pool = own.pool;
  const own_pool::slots taken = own.get(pool.first_shard(), 10);
  pool.validate();
  ++pool.spare_bytes;
  EXPECT_BROKEN(pool.validate(), "pool_core", "spare_bytes.load(std::memory_order_relaxed) == spare",
                static_cast<pool_core*>(&pool));
  --pool.spare_bytes;
  access::bytes(pool) -= page_size;
  EXPECT_BROKEN(pool.validate(), "pool_core", "in_shards <= bytes()", static_cast<pool_core*>(&pool));
  access::bytes(pool) += page_size;
  own.give(taken);
}

TEST(pool_core, a_new_bin_gets_a_shard_without_bins_then_a_new_one_then_that_with_the_fewest) {
  own_pool own(64, 3);
  tarn_pool& pool = own.pool;
  pool_shard& first = pool.assign_shard_locked();
  EXPECT_EQ(&first, &pool.first_shard());
  pool_shard& second = pool.assign_shard_locked();
  EXPECT_NE(&second, &first);
  --second.bins;
  EXPECT_EQ(&pool.assign_shard_locked(), &second);
  pool_shard& third = pool.assign_shard_locked();
  EXPECT_TRUE(&third != &first && &third != &second);
  ++first.bins;
  ++second.bins;
  EXPECT_EQ(&pool.assign_shard_locked(), &third);
  pool.forget_bins();
  EXPECT_TRUE(first.bins == 0 && second.bins == 0 && third.bins == 0);
}

TEST(pool_core, a_checked_pool_has_one_shard) {
  tarn_pool_options request = request_of(64, 8);
  request.checked = true;
  own_pool own(request);
  EXPECT_EQ(&own.pool.assign_shard_locked(), &own.pool.assign_shard_locked());
}

TEST(pool_core, what_was_reserved_serves_every_shard_in_whole_spans) {
  own_pool own(64, 2);
  tarn_pool& pool = own.pool;
  pool_shard& first = pool.assign_shard_locked();
  pool_shard& second = pool.assign_shard_locked();
  ASSERT_TRUE(pool.reserve(1000));
  const std::size_t bytes = pool.bytes();
  const own_pool::slots taken = own.get(second, 100);
  EXPECT_EQ(taken.size(), 100U);
  EXPECT_EQ(pool.bytes(), bytes);
  EXPECT_EQ(second.taken(), 100U);
  EXPECT_EQ(first.taken(), 0U);
  own.give(taken);
}

TEST(pool_core, what_was_reserved_twice_is_reserved_once) {
  own_pool own(64);
  ASSERT_TRUE(own.pool.reserve(1000));
  const std::size_t bytes = own.pool.bytes();
  EXPECT_TRUE(own.pool.reserve(1000));
  EXPECT_EQ(own.pool.bytes(), bytes);
}

// A span that is carved in part and whose slots have come back is empty, and not carved to its end.
TEST(pool_core, what_is_reserved_after_a_use_can_be_handed_out) {
  for (const std::size_t size : {64U, 1500U, 3000U}) {
    own_pool own(size);
    tarn_pool& pool = own.pool;
    own.give(own.get(pool.first_shard(), 2));
    constexpr std::size_t wanted = 250;
    ASSERT_TRUE(pool.reserve(wanted));
    const std::size_t bytes = pool.bytes();
    const own_pool::slots taken = own.get(pool.first_shard(), wanted);
    EXPECT_EQ(taken.size(), wanted);
    EXPECT_EQ(pool.bytes(), bytes) << "slots of " << size << " bytes";
    own.give(taken);
  }
}

TEST(pool_core, no_more_is_reserved_than_the_machine_has) {
  own_pool own(4096);
  EXPECT_FALSE(own.pool.reserve(~std::size_t{0} / 4096));
  EXPECT_EQ(own.pool.bytes(), 0U);
}

TEST(pool_core, at_its_limit_it_takes_what_other_shards_have) {
  tarn_pool_options request = request_of(1024, 2);
  request.limit = 64 * kib;
  own_pool own(request);
  tarn_pool& pool = own.pool;
  pool_shard& first = pool.assign_shard_locked();
  pool_shard& second = pool.assign_shard_locked();
  const own_pool::slots taken = own.get(first, 1000);
  EXPECT_EQ(pool.bytes(), request.limit);
  EXPECT_EQ(taken.size(), 64U);
  EXPECT_TRUE(own.get(second, 10).empty());
  own.give({taken.back()});
  EXPECT_EQ(own.get(second, 10), own_pool::slots{taken.back()}) << "the slot of the first shard";
  own.give(taken);
}

TEST(pool_core, the_pool_of_an_address) {
  own_pool own(64);
  const own_pool::slots taken = own.get(own.pool.first_shard(), 1);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(pool_core::owner_of(taken[0]), &own.pool);
  EXPECT_EQ(pool_core::owner_of(static_cast<char*>(taken[0]) + 5), &own.pool);
  EXPECT_EQ(pool_core::owner_of(nullptr), nullptr);
  EXPECT_EQ(pool_core::owner_of(&own), nullptr);
  EXPECT_EQ(pool_core::owner_of(reinterpret_cast<void*>(~std::uintptr_t{0})), nullptr);
  own.give(taken);
  own.pool.trim();
  EXPECT_EQ(pool_core::owner_of(taken[0]), nullptr);
}

TEST(pool_core, pointers_that_are_none_of_its_slots_end_the_process) {
  own_pool own(64);
  own_pool other(64);
  const own_pool::slots foreign = other.get(other.pool.first_shard(), 1);
  const std::string text = "destroy of a pointer that is not one of its objects, in the pool of " + own.name;
  EXPECT_TARN_ABORT(own.give({foreign[0]}), text, foreign[0]);
  int outside = 0;
  EXPECT_TARN_ABORT(own.give({&outside}), text, &outside);
  other.give(foreign);
}

}  // namespace
}  // namespace tarn
