// SPDX-License-Identifier: MIT
// Dekker's test: of two threads that each store, fence and look, at least one sees the other's store. The
// hardware really does break this without the fence, x86-64 included.
#include "base/fence.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tarn {
namespace {

struct alignas(128) word {
  std::atomic<int> value{0};
};

// So many rounds, or as many as fit into a second: on a machine with more to do than processors the two meet once per slice
// of time.
TEST(fence, of_two_threads_one_sees_the_other) {
  constexpr int most_rounds = 20000;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  word stored[2];
  word seen[2];
  word arrived;
  word last_round;
  last_round.value = most_rounds;
  int both_blind = 0;

  const auto meet = [&](int round, int step) {
    arrived.value.fetch_add(1, std::memory_order_acq_rel);
    for (int spins = 0; arrived.value.load(std::memory_order_acquire) < (round * 2 + step) * 2; ++spins) {
      if (spins > 200) std::this_thread::yield();
    }
  };
  const auto body = [&](int me) {
    for (int round = 0; round < last_round.value.load(std::memory_order_relaxed); ++round) {
      // Ordered by the meetings of this round: both read it after them.
      if (me == 0 && std::chrono::steady_clock::now() > end) {
        last_round.value.store(round + 1, std::memory_order_relaxed);
      }
      meet(round, 1);
      stored[me].value.store(round + 1, std::memory_order_relaxed);
      full_fence();
      seen[me].value.store(stored[1 - me].value.load(std::memory_order_relaxed) == round + 1,
                           std::memory_order_relaxed);
      meet(round, 2);
      if (me == 0 && seen[0].value.load() == 0 && seen[1].value.load() == 0) ++both_blind;
    }
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  EXPECT_GT(last_round.value, 0);
  EXPECT_EQ(both_blind, 0) << "of " << last_round.value << " rounds";
}

}  // namespace
}  // namespace tarn
