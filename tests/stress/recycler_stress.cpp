// SPDX-License-Identifier: MIT Recyclers used by 8 threads: objects are taken, handed to other threads, kept idle,
// stolen, aged and destroyed, while generations end all the time. The tests detect an object with two owners, a
// destroyed object that is handed out, and an exceeded budget. Compiled a second time with checked pools.
// STRESS_OPERATIONS=N sets the number of gets in the first two tests: N over all threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "rounds.hpp"
#include "tarn/recycler.hpp"

namespace tarn {
namespace {

using testing_support::in_threads;

constexpr unsigned threads = 8;

std::atomic<std::int64_t> alive{0};
constexpr std::uint64_t intact = 0x9e3779b97f4a7c15U;

struct owned {
  // Atomic, because a thread that got the object by error reads these too, and is detected by them.
  std::atomic<std::uint32_t> owners{0};
  std::atomic<std::uint64_t> life{intact};
  std::uint64_t content[6] = {};
  std::size_t weight = 100;

  owned() { ++alive; }
  owned(const owned&) = delete;
  owned& operator=(const owned&) = delete;
  ~owned() {
    if (owners.load() != 0 || life.exchange(0) != intact) std::abort();
    --alive;
  }

  void take(std::uint64_t mark) {
    if (owners.fetch_add(1, std::memory_order_relaxed) != 0) std::abort();
    if (life.load(std::memory_order_relaxed) != intact) std::abort();
    for (std::uint64_t& word : content) word = mark;
  }
  void leave(std::uint64_t mark) {
    for (const std::uint64_t word : content) {
      if (word != mark) std::abort();
    }
    if (owners.fetch_sub(1, std::memory_order_relaxed) != 1) std::abort();
  }
};

struct weighed {
  static void reset(owned&) noexcept {}
  static std::size_t retained_bytes(const owned& object) noexcept { return object.weight; }
};
using recycler_of_owned = recycler<owned, weighed>;

struct held {
  recycler_of_owned::handle object;
  std::uint64_t mark = 0;
};

void churn(recycler_of_owned& pool, std::uint64_t operations, std::uint64_t limit) {
  std::vector<std::atomic<held*>> exchange(64);
  std::atomic<bool> ends{false};
  std::thread trimmer([&] {
    while (!ends.load(std::memory_order_relaxed)) {
      pool.trim();
      const recycler_stats stats = pool.stats();
      EXPECT_LE(stats.bytes, limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  in_threads(threads, [&](unsigned index) {
    std::mt19937 random(index);
    std::vector<held> own;
    for (std::uint64_t i = 0; i < operations; ++i) {
      const std::uint32_t r = static_cast<std::uint32_t>(random());
      held next{.object = pool.get(), .mark = (std::uint64_t{index} << 48) + i + 1};
      next.object->take(next.mark);
      next.object->weight = 50 + r % 200;
      if (r % 4 == 0) {
        // Leaves this object to another thread, and gives back the one that another thread has left.
        held* mine = new held(std::move(next));
        held* other = exchange[(r >> 8) % exchange.size()].exchange(mine, std::memory_order_acq_rel);
        if (other == nullptr) continue;
        other->object->leave(other->mark);
        delete other;
      } else {
        own.push_back(std::move(next));
      }
      const std::size_t most = (r >> 16) % 64;
      while (own.size() > most) {
        own.back().object->leave(own.back().mark);
        own.pop_back();
      }
    }
    for (held& each : own) each.object->leave(each.mark);
  });
  ends = true;
  trimmer.join();
  for (std::atomic<held*>& each : exchange) {
    if (held* const last = each.load()) {
      last->object->leave(last->mark);
      delete last;
    }
  }
}

TEST(recycler_stress, no_object_has_two_owners) {
  {
    recycler_of_owned pool({.limit = 0, .limit_per_object = 0, .cycle = std::chrono::milliseconds(1)});
    churn(pool, testing_support::operations(threads, 1000000), UINT64_MAX);
  }
  EXPECT_EQ(alive, 0);
}

TEST(recycler_stress, the_budget_is_kept) {
  {
    recycler_of_owned pool({.limit = 20000, .limit_per_object = 1000, .cycle = std::chrono::milliseconds(5)});
    churn(pool, testing_support::operations(threads, 500000), 20000);
    EXPECT_GT(pool.stats().hits, 0U);
  }
  EXPECT_EQ(alive, 0);
}

TEST(recycler_stress, threads_come_and_go) {
  {
    recycler_of_owned pool({.limit_objects = 100, .cycle = std::chrono::milliseconds(1)});
    for (int round = 0; round < testing_support::rounds(40); ++round) {
      in_threads(threads, [&](unsigned index) {
        std::vector<held> own;
        for (std::uint64_t i = 0; i < 50; ++i) {
          own.push_back({pool.get(), index * 1000 + i + 1});
          own.back().object->take(own.back().mark);
        }
        for (held& each : own) each.object->leave(each.mark);
      });
      EXPECT_LE(pool.stats().objects, 100U);
    }
  }
  EXPECT_EQ(alive, 0);
}

TEST(recycler_stress, recyclers_come_and_go) {
  for (int round = 0; round < testing_support::rounds(200); ++round) {
    std::vector<held> late;
    {
      recycler_of_owned pool({.cycle = std::chrono::milliseconds(1)});
      in_threads(3, [&](unsigned index) {
        for (std::uint64_t i = 0; i < 20; ++i) {
          held h{pool.get(), index * 100 + i + 1};
          h.object->take(h.mark);
          h.object->leave(h.mark);
        }
      });
      late.push_back({pool.get(), 1});
    }
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace tarn
