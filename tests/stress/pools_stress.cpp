// SPDX-License-Identifier: MIT Typed pools used by many threads. The thread that creates an object fills it with a
// pattern; the thread that destroys it checks the pattern. This shows slots handed out twice and writes by the pool.
// Compiled a second time with checked pools.
// STRESS_OPERATIONS=N sets the number of operations: N / 8 per thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "rounds.hpp"
#include "tarn/pool.hpp"
#include "tarn/process.hpp"

namespace tarn {
namespace {

using testing_support::in_threads;

constexpr unsigned threads = 8;

std::uint64_t operations_per_thread(std::uint64_t ordinary) {
  return testing_support::operations(threads, TARN_CHECKED_POOLS ? ordinary / 4 : ordinary);
}

template <std::size_t Words>
struct stamped {
  std::uint64_t words[Words];

  explicit stamped(std::uint64_t number) {
    for (std::size_t i = 0; i < Words; ++i) words[i] = number * 0x9e3779b97f4a7c15U + i;
  }
  [[nodiscard]] bool intact() const {
    for (std::size_t i = 1; i < Words; ++i) {
      if (words[i] != words[0] + i) return false;
    }
    return true;
  }
};

// Each thread creates and destroys objects in bursts and keeps thousands, so that magazines, depots and spans all take
// part. One object in eight goes through slots that all threads share, and is destroyed by another thread.
template <class T, class Pool>
void churn(Pool& pool, std::uint64_t operations) {
  std::vector<std::atomic<T*>> shared(1024);
  std::atomic<std::uint64_t> damaged{0};
  in_threads(threads, [&](unsigned index) {
    std::mt19937_64 random(index);
    std::vector<T*> mine;
    std::uint64_t number = std::uint64_t{index} << 48;
    const auto check_and_destroy = [&](T* object) {
      if (!object->intact()) damaged.fetch_add(1, std::memory_order_relaxed);
      pool.destroy(object);
    };
    for (std::uint64_t done = 0; done < operations;) {
      const std::size_t burst = 1 + random() % (random() % 16 == 0 ? 5000 : 50);
      const bool growing = mine.size() < 20000 && random() % 2 == 0;
      for (std::size_t i = 0; i < burst; ++i, ++done) {
        if (growing) {
          T* object = pool.create(++number);
          if (number % 8 == 0)
            object = shared[random() % shared.size()].exchange(object, std::memory_order_acq_rel);
          if (object == nullptr) continue;
          if (number % 8 == 0) {
            check_and_destroy(object);
          } else {
            mine.push_back(object);
          }
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          check_and_destroy(mine.back());
          mine.pop_back();
        }
      }
    }
    for (T* object : mine) check_and_destroy(object);
  });
  for (std::atomic<T*>& slot : shared) {
    if (T* const object = slot.load(std::memory_order_relaxed)) {
      EXPECT_TRUE(object->intact());
      pool.destroy(object);
    }
  }
  EXPECT_EQ(damaged.load(), 0U);
  EXPECT_EQ(pool.stats().live, 0U);
}

TEST(pools_stress, shared_pool_of_small_objects) {
  auto pool = pool_of<stamped<2>>();
  churn<stamped<2>>(pool, operations_per_thread(2'000'000));
}

TEST(pools_stress, shared_pool_of_cache_lines) {
  auto pool = pool_of<stamped<8>>();
  churn<stamped<8>>(pool, operations_per_thread(2'000'000));
}

TEST(pools_stress, own_pool_of_large_objects_in_two_shards) {
  object_pool<stamped<100>> pool({.shards = 2});
  churn<stamped<100>>(pool, operations_per_thread(400'000));
}

TEST(pools_stress, own_pool_with_short_magazines) {
  object_pool<stamped<3>> pool({.magazine_length = 2, .shards = 3});
  churn<stamped<3>>(pool, operations_per_thread(400'000));
}

// Another thread trims all pools and reads their statistics all the time.
TEST(pools_stress, trimmed_meanwhile) {
  object_pool<stamped<8>> pool;
  std::atomic<bool> done{false};
  std::thread trimmer([&] {
    while (!done.load(std::memory_order_relaxed)) {
      tarn::trim();
      for (const named_pool_stats& each : tarn::pools())
        EXPECT_LE(each.stats.cached * each.stats.object_bytes, std::size_t{1} << 32);
      std::this_thread::yield();
    }
  });
  churn<stamped<8>>(pool, operations_per_thread(400'000));
  done.store(true, std::memory_order_relaxed);
  trimmer.join();
}

// A pool is destroyed just after the threads that used it have ended.
TEST(pools_stress, pools_come_and_go) {
  const std::uint64_t rounds = std::max<std::uint64_t>(operations_per_thread(100'000) / 1000, 5);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    object_pool<stamped<4>> pool;
    in_threads(4, [&](unsigned index) {
      std::vector<stamped<4>*> mine;
      for (unsigned i = 0; i < 500; ++i) mine.push_back(pool.create(index * 1000 + i));
      for (stamped<4>* object : mine) {
        EXPECT_TRUE(object->intact());
        pool.destroy(object);
      }
    });
    ASSERT_EQ(pool.stats().live, 0U);
  }
}

TEST(pools_stress, local_pools) {
  in_threads(4, [](unsigned index) {
    local_pool<stamped<3>> pool;
    std::mt19937 random(index);
    std::vector<stamped<3>*> mine;
    const std::uint64_t operations = operations_per_thread(400'000);
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (mine.empty() || (random() % 16 < 9 && mine.size() < 100'000)) {
        mine.push_back(pool.create(i));
      } else {
        std::swap(mine[random() % mine.size()], mine.back());
        ASSERT_TRUE(mine.back()->intact());
        pool.destroy(mine.back());
        mine.pop_back();
      }
    }
    ASSERT_EQ(pool.live(), mine.size());
    for (stamped<3>* object : mine) pool.destroy(object);
    ASSERT_EQ(pool.live(), 0U);
  });
}

}  // namespace
}  // namespace tarn
