// SPDX-License-Identifier: MIT
// Store buffering (Dekker's test): of two threads that each store, execute full_fence() and load the other's word, at
// least one sees the other's store. Without the fence real processors violate this, x86-64 included.
#include "base/fence.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace tarn {
namespace {

struct alignas(128) word {
  std::atomic<int> value{0};
};

// After each meeting the two threads go through this many pairs of words, and are at the same pair at the same moment
// for some of them. So few meetings are enough; on a busy machine each meeting may cost a time slice.
constexpr std::size_t pairs = 64;
constexpr int most_rounds = 2000;

struct side {
  std::array<word, pairs> stored;
  std::array<int, pairs> seen{};
};

// Binds the calling thread to the first or the last processor that it may use: threads that share a processor never run
// at the same time.
void use_processor(int me) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  int chosen = -1;
  for (int each = 0; each < CPU_SETSIZE; ++each) {
    if (CPU_ISSET(each, &all) && (chosen < 0 || me != 0)) chosen = each;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  sched_setaffinity(0, sizeof one, &one);
}

TEST(fence, of_two_threads_one_sees_the_other) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  std::array<side, 2> sides;
  word arrived;
  word last_round;
  last_round.value = most_rounds;
  int both_blind = 0;

  const auto meet = [&](int round, int step) {
    arrived.value.fetch_add(1, std::memory_order_acq_rel);
    for (int spins = 0; arrived.value.load(std::memory_order_acquire) < (round * 2 + step) * 2; ++spins) {
      if (spins > 2000) std::this_thread::yield();
    }
  };
  const auto body = [&](int me) {
    use_processor(me);
    side& own = sides[static_cast<std::size_t>(me)];
    side& other = sides[static_cast<std::size_t>(1 - me)];
    for (int round = 0; round < last_round.value.load(std::memory_order_relaxed); ++round) {
      // Both threads read last_round only after the meetings of this round.
      if (me == 0 && std::chrono::steady_clock::now() > end)
        last_round.value.store(round + 1, std::memory_order_relaxed);
      meet(round, 1);
      for (std::size_t at = 0; at < pairs; ++at) {
        own.stored[at].value.store(round + 1, std::memory_order_relaxed);
        full_fence();
        own.seen[at] = other.stored[at].value.load(std::memory_order_relaxed);
      }
      meet(round, 2);
      if (me != 0) continue;
      for (std::size_t at = 0; at < pairs; ++at)
        both_blind += own.seen[at] <= round && other.seen[at] <= round;
    }
  };
  std::thread first(body, 0), second(body, 1);
  first.join();
  second.join();
  EXPECT_GT(last_round.value, 0);
  EXPECT_EQ(both_blind, 0) << "in " << last_round.value << " rounds";
}

}  // namespace
}  // namespace tarn
