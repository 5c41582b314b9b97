// SPDX-License-Identifier: MIT
// thread_cache: how many bytes caches keep, alone and together, and which classes have a place.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "thread_cache_fixture.hpp"

namespace tarn {
namespace {

class thread_cache_budget_test : public thread_cache_fixture {};

TEST_F(thread_cache_budget_test, a_cache_holds_no_more_than_its_limit) {
  for (const std::size_t caches : {1, 2}) {
    engine_->budget.caches = caches;
    for (int round = 0; round < 12; ++round) {
      for (unsigned c = 1; c < size_classes::count; ++c) {
        release_all(c, allocate_many(c, 3 * class_info(c).magazine + 10U));
      }
    }
    EXPECT_LE(access::capacity_bytes(cache_), 8 * mib / caches);
    EXPECT_GT(access::capacity_bytes(cache_), 6 * mib / caches);
    check(cache_);
    cache_.flush_all();
  }
}

// Capacity goes to the class that misses what its thread has put back, up to the thread's share.
TEST_F(thread_cache_budget_test, batches_stay_in_the_cache_while_it_uses_them) {
  for (const std::size_t size : {512U, 4096U, 32768U}) {
    const unsigned c = class_of_size(size);
    const std::size_t batch = std::min<std::size_t>(1000, 3 * mib / size);
    ASSERT_GT(batch, 2 * class_info(c).magazine) << "it would fit into magazines of one refill";
    for (int round = 0; round < 6; ++round) release_all(c, allocate_many(c, batch));
    check(cache_);
    const auto& counters = engine_->central_tier.depots().at(c).counters;
    const std::uint64_t before = counters.refills.load() + counters.flushes.load();
    for (int round = 0; round < 10; ++round) release_all(c, allocate_many(c, batch));
    EXPECT_EQ(counters.refills.load() + counters.flushes.load(), before) << size;
    cache_.flush_all();
  }
}

TEST_F(thread_cache_budget_test, a_thread_that_only_allocates_or_only_frees_keeps_no_more_than_a_refill) {
  const unsigned c = class_of_size(4096);
  for (int round = 0; round < 6; ++round) {
    for (void* object : allocate_many(c, 1000)) release_to(other_, c, object);
  }
  EXPECT_EQ(access::most(cache_, c), class_info(c).magazine);
  EXPECT_EQ(access::most(other_, c), class_info(c).magazine);
}

TEST_F(thread_cache_budget_test, the_capacity_of_a_class_that_does_not_miss_is_halved_at_scavenges) {
  const unsigned c = class_of_size(4096);
  const unsigned busy = class_of_size(2048);
  for (int round = 0; round < 6; ++round) release_all(c, allocate_many(c, 1000));
  const std::size_t grown = access::most(cache_, c);
  ASSERT_GT(grown, 8U * class_info(c).magazine);
  // From here on the class uses a few objects, another number at each look; the misses of another class call scavenges.
  std::set<std::size_t> seen;
  std::vector<void*> used;
  for (int step = 0; step < 1500; ++step) {
    used.push_back(allocate(c));
    for (void* object : allocate_many(busy, 1000)) release_to(other_, busy, object);
    seen.insert(access::most(cache_, c));
    if (step % 50 == 0) check(cache_);
    if (used.size() == 10) release_all(c, std::exchange(used, {}));
  }
  release_all(c, used);
  EXPECT_EQ(seen.count(grown / 2) + seen.count(grown / 4), 2U) << testing::PrintToString(seen);
  EXPECT_LE(access::most(cache_, c), class_info(c).magazine);
}

TEST_F(thread_cache_budget_test, without_budget_no_class_has_a_place) {
  engine_->budget.limit = 0;
  for (int round = 0; round < 10; ++round) release_all(small, allocate_many(small, 1000));
  EXPECT_TRUE(access::is_empty_bin(cache_, small));
  EXPECT_EQ(cache_.cached_bytes(), 0U);
  check(cache_);
}

TEST_F(thread_cache_budget_test, what_was_used_once_leaves_nothing_behind) {
  std::vector<void*> objects;
  for (unsigned c = 1; c < size_classes::count; ++c) objects.push_back(allocate(c));
  for (unsigned c = 1; c < size_classes::count; ++c) release(c, objects[c - 1]);
  EXPECT_EQ(cache_.cached_bytes(), 0U);
  EXPECT_EQ(access::capacity_bytes(cache_), 0U);
  engine_->central_tier.release_spares(true);
  EXPECT_EQ(engine_->heap.stats().in_use, 0U);
}

TEST_F(thread_cache_budget_test, every_class_gets_a_place_when_it_is_used_again_and_again) {
  engine_->budget.limit = 1 * gib;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    thread_cache cache{engine_->central_tier, engine_->budget};
    open_class(cache, c);
    EXPECT_FALSE(access::is_empty_bin(cache, c)) << class_info(c).size;
    cache.flush_all();
  }
}

TEST_F(thread_cache_budget_test, a_magazine_of_another_thread_is_cut_to_the_budget) {
  for (int i = 0; i < 40; ++i) release_all(small, allocate_many(small, 1000));
  open_class(other_, small);
  while (testing_support::pop(*engine_, other_, small) != nullptr) {
  }
  engine_->budget.limit = 0;
  void* const object = other_.allocate_slow(small);
  other_.validate();
  release_to(other_, small, object);
  check(other_);
}

// The bound in thread_cache.hpp holds for random mixes of sizes, numbers of caches and budgets, while objects move from
// cache to cache.
TEST_F(thread_cache_budget_test, what_caches_keep_is_bounded_for_any_mix_of_sizes) {
  std::mt19937_64 random(42);
  const int trials = TARN_TSAN ? 5 : 30;  // one thread has no races to find
  for (int trial = 0; trial < trials; ++trial) {
    engine_->budget.limit = std::size_t{1} << (16 + random() % 9);
    std::vector<std::unique_ptr<thread_cache>> caches(1 + random() % 40);
    engine_->budget.caches = caches.size();
    for (auto& cache : caches) cache = std::make_unique<thread_cache>(engine_->central_tier, engine_->budget);
    std::vector<std::pair<unsigned, void*>> live;
    std::size_t bytes = 0;  // in `live`
    const auto lowest = static_cast<unsigned>(1 + random() % (size_classes::count - 1));
    const auto classes = static_cast<unsigned>(1 + random() % (size_classes::count - lowest));
    for (int step = 0; step < 3000; ++step) {
      thread_cache& cache = *caches[random() % caches.size()];
      const auto c = static_cast<unsigned>(lowest + random() % classes);
      for (auto burst = random() % 40; burst != 0; --burst, bytes += class_info(c).size)
        live.emplace_back(c, testing_support::take(*engine_, cache, c));
      while (bytes > 8 * mib || (!live.empty() && random() % 30 != 0)) {
        std::swap(live[random() % live.size()], live.back());
        bytes -= class_info(live.back().first).size;
        ASSERT_TRUE(testing_support::give(*engine_, *caches[random() % caches.size()], live.back().second));
        live.pop_back();
      }
    }
    std::size_t held = 0;
    std::size_t capacity = 0;
    for (const auto& cache : caches) {
      cache->validate();
      held += cache->cached_bytes();
      capacity += cache->capacity_bytes();
    }
    ASSERT_LE(held, capacity) << trial;
    ASSERT_EQ(capacity, engine_->budget.used.load()) << trial;
    ASSERT_LE(capacity, engine_->budget.limit.load()) << trial;
    for (const auto& [c, object] : live) testing_support::give(*engine_, *caches[0], object);
    for (const auto& cache : caches) cache->flush_all();
    ASSERT_EQ(engine_->budget.used.load(), 0U);
  }
}

TEST_F(thread_cache_budget_test, the_budget_counts_the_magazines_of_all_caches) {
  release_all(small, allocate_many(small, 3000));
  release_to(other_, 20, other_.allocate_slow(20));
  EXPECT_EQ(engine_->budget.used.load(), access::capacity_bytes(cache_) + access::capacity_bytes(other_));
  cache_.flush_all();
  other_.flush_all();
  EXPECT_EQ(engine_->budget.used.load(), 0U);
}

}  // namespace
}  // namespace tarn
