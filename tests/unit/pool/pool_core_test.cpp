// SPDX-License-Identifier: MIT
// pool_core and pool_shard: their invariants.
#include "pool/pool_core.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "broken_invariant.hpp"
#include "pool/pool_magazine.hpp"
#include "runtime/engine.hpp"

namespace tarn {

class pool_core_test_access {
 public:
  static std::atomic<std::size_t>& bytes(pool_core& pool) { return pool.bytes_; }
};

class pool_shard_test_access {
 public:
  static std::atomic<std::size_t>& spare_bytes(pool_shard& shard) { return shard.spare_bytes_; }
  static span*& carving(pool_shard& shard) { return shard.carving_; }
};

namespace {

using access = pool_shard_test_access;

// A pool of its own with ten slots taken out of a span that is not carved to its end.
class pool_core_test : public testing::Test {
 protected:
  pool_core_test() {
    engine::attach_thread();
    magazine_ = pool_magazine::allocate_some(slots);
    EXPECT_EQ(pool_.refill(shard_, magazine_, slots), slots);
    magazine_->count = slots;
  }
  ~pool_core_test() override {
    pool_.flush(magazine_->bottom(), slots);
    pool_.validate();
    pool_magazine::deallocate(magazine_);
    pool_.release_everything();
  }
  void expect_broken(const std::string& equation) {
    EXPECT_TARN_ABORT(shard_.validate_locked(),
                      testing_support::literally("broken invariant of pool_shard: " + equation), &shard_);
  }

  static constexpr std::size_t slots = 10;
  const tarn_pool_request request_{.size = 64,
                                   .alignment = 8,
                                   .name = "",
                                   .name_length = 0,
                                   .chunk_objects = 0,
                                   .initial_capacity = 0,
                                   .magazine_length = 0,
                                   .maximum_bytes = 0,
                                   .shards = 1,
                                   .huge_pages = false,
                                   .checked = false,
                                   .single_thread = false,
                                   .own_bin = nullptr};
  std::unique_ptr<pool_core> owner_ = std::make_unique<pool_core>(request_, "");
  pool_core& pool_ = *owner_;
  pool_shard& shard_ = pool_.first_shard();
  magazine* magazine_ = nullptr;
};

TEST_F(pool_core_test, finds_a_broken_invariant) {
  pool_.validate();
  const std::size_t bytes = access::spare_bytes(shard_).exchange(1);
  EXPECT_BROKEN(pool_.validate(), "pool_core", "spare_bytes.load(std::memory_order_relaxed) == spare",
                &pool_);
  access::spare_bytes(shard_).store(bytes);
  pool_core_test_access::bytes(pool_) -= page_size;
  EXPECT_BROKEN(pool_.validate(), "pool_core", "in_shards <= bytes()", &pool_);
  pool_core_test_access::bytes(pool_) += page_size;
}

TEST_F(pool_core_test, finds_a_broken_invariant_of_a_shard) {
  shard_.validate_locked();
  span* const s = access::carving(shard_);
  ASSERT_NE(s, nullptr);
  s->owner.store(nullptr);
  expect_broken("s.owner.load(std::memory_order_relaxed) == this");
  s->owner.store(&shard_);
  s->capacity--;
  expect_broken("depot_.taken() == taken");
  s->capacity++;
  s->free_objects = 1;
  expect_broken("s->free_objects == 0 && s->list == object_depot::no_list");
  s->free_objects = 0;
  s->free_bits[0] |= 1;
  EXPECT_BROKEN(shard_.validate_locked(), "objects", "s->free_objects == count_free(s)", s);
  s->free_bits[0] &= ~std::uint64_t{1};
  access::spare_bytes(shard_) += 1;
  expect_broken("spare_bytes() == spare");
  access::spare_bytes(shard_) -= 1;
}

// A thread that has found no used slot carves fresh ones after it has released the lock; others may free all slots of
// the span in between.
TEST_F(pool_core_test, carves_a_span_whose_slots_have_all_been_freed) {
  span* const s = access::carving(shard_);
  ASSERT_NE(s, nullptr);
  pool_.flush(magazine_->bottom(), slots);
  EXPECT_EQ(s->list, object_depot::spare_list);
  EXPECT_EQ(shard_.spare_bytes(), s->bytes());
  EXPECT_EQ(shard_.take(magazine_, slots, pool_shard::source::fresh), slots);
  EXPECT_EQ(s->capacity, 2 * slots);
  EXPECT_EQ(shard_.spare_bytes(), 0U);
  EXPECT_EQ(shard_.taken(), slots);
  pool_.validate();
}

TEST_F(pool_core_test, finds_a_span_that_is_not_carved_to_its_end) {
  span* const s = std::exchange(access::carving(shard_), nullptr);
  expect_broken("s.capacity == pool_.slots_in(&s) || s.capacity == 0 || &s == carving");
  access::carving(shard_) = s;
}

}  // namespace
}  // namespace tarn
