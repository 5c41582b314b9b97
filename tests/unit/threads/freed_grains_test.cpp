// SPDX-License-Identifier: MIT
// thread_cache: freed blocks of spans that are divided into grains.
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "thread_cache_fixture.hpp"

namespace tarn {
namespace {

// blocks_: live blocks of one grain class.
class freed_grains_test : public thread_cache_fixture {
 protected:
  static constexpr unsigned new_class = 27;

  void SetUp() override {
    if (hardened_build) GTEST_SKIP() << "the hardened build divides no span";
    constexpr unsigned old_class = 22;
    const auto objects = allocate_many(old_class, 4 * mib / class_info(old_class).size);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      if (i % 8 != 0) release(old_class, objects[i]);
    }
    cache_.flush_all();
    engine_->central_tier.flush_idle_magazines(true);
    engine_->central_tier.release_spares(true);
    engine_->heap.trim(0);
    for (void* block : allocate_many(new_class, 400)) {
      const auto c = static_cast<unsigned>(engine_->map.class_of(address_of(block)));
      if (size_classes::is_grain(c)) blocks_.emplace_back(c, block);
    }
    ASSERT_GE(blocks_.size(), 100U);
    grain_ = blocks_.front().first;
    std::erase_if(blocks_, [this](const auto& block) { return block.first != grain_; });
    ASSERT_GE(blocks_.size(), 100U);
  }
  void free_one() {
    if (blocks_.empty()) throw std::runtime_error("the cache has no magazine for blocks of grains");
    ASSERT_TRUE(testing_support::give(*engine_, cache_, blocks_.back().second));
    blocks_.pop_back();
  }
  // Frees blocks until the cache has a magazine for them; then the given number.
  void free_into_magazine(std::size_t count) {
    while (access::is_empty_bin(cache_, grain_)) free_one();
    for (; count != 0; --count) free_one();
  }
  std::size_t waiting() {
    magazine* const m = access::loaded(cache_, grain_);
    const auto loaded = static_cast<std::size_t>(access::bin_of(cache_, grain_).top - m->bottom());
    return loaded + access::spare_count(cache_, grain_);
  }
  std::uint64_t flushes() { return engine_->central_tier.depots().at(grain_).counters.flushes.load(); }

  std::vector<std::pair<unsigned, void*>> blocks_;
  unsigned grain_ = 0;
};

TEST_F(freed_grains_test, they_wait_in_a_magazine_for_the_next_refill) {
  free_into_magazine(40);
  const std::uint64_t before = flushes();
  const std::size_t were_waiting = waiting();
  EXPECT_GE(capacity_of(grain_), class_info(grain_).magazine);
  free_one();
  free_one();
  EXPECT_LE(flushes(), before + 1) << "each block was put back by itself";
  EXPECT_GT(waiting(), 0U);
  EXPECT_LE(waiting(), were_waiting + 2);
  cache_.validate();
  const auto refills = [&] { return engine_->central_tier.depots().at(new_class).counters.refills.load(); };
  for (const std::uint64_t count = refills(); refills() == count;) allocate(new_class);
  EXPECT_EQ(waiting(), 0U);
  cache_.validate();
  engine_->central_tier.depots().validate();
}

TEST_F(freed_grains_test, they_are_paid_for_and_leave_with_the_cache) {
  free_into_magazine(40);
  check(cache_);
  EXPECT_LE(cache_.cached_bytes(), cache_.capacity_bytes());
  cache_.flush_all();
  EXPECT_EQ(cache_.cached_bytes(), 0U);
  EXPECT_EQ(cache_.capacity_bytes(), 0U);
  EXPECT_EQ(engine_->budget.used.load(), 0U);
}

TEST_F(freed_grains_test, none_stays_in_the_cache_of_a_sleeping_thread) {
  free_into_magazine(3);
  cache_.take_surplus(false);
  cache_.claim();
  cache_.empty_while_idle();
  cache_.end_claim();
  EXPECT_EQ(waiting() - access::holes(cache_, grain_), 0U);
  free_one();
  cache_.flush_all();
  EXPECT_EQ(cache_.cached_bytes(), 0U);
}

TEST_F(freed_grains_test, a_block_that_waits_is_not_taken_twice) {
  free_into_magazine(1);
  void* const block = blocks_.back().second;
  free_one();
  EXPECT_FALSE(testing_support::give(*engine_, cache_, block));
  cache_.flush_all();
  EXPECT_FALSE(testing_support::give(*engine_, cache_, block)) << "it lies free in its span";
}

TEST_F(freed_grains_test, a_pointer_into_a_block_is_found_when_it_goes_back) {
  free_into_magazine(1);
  auto* const inside = static_cast<char*>(blocks_.back().second) + class_info(grain_).size;
  EXPECT_DEATH(
      {
        testing_support::give(*engine_, cache_, inside);
        cache_.flush_all();
      },
      "into a block");
}

}  // namespace
}  // namespace tarn
