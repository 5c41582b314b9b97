// SPDX-License-Identifier: MIT
// process_fence(): orders the stores and loads of other threads (Dekker's algorithm).
#include "os/process_fence.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tarn {
namespace {

// Dekker's algorithm with no fence instruction in the owner: without process_fence(), both threads would sometimes be
// inside at the same time.
TEST(process_fence, orders_the_stores_and_loads_of_other_threads) {
  if (!os::process_fence()) GTEST_SKIP() << "the system has no membarrier()";
  std::atomic<int> busy{0};
  std::atomic<int> claimed{0};
  std::atomic<int> inside{0};
  std::atomic<bool> ends{false};
  std::atomic<int> both{0};
  std::thread owner([&] {
    while (!ends.load(std::memory_order_relaxed)) {
      busy.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (claimed.load(std::memory_order_acquire) == 0) {
        if (inside.fetch_add(1, std::memory_order_relaxed) != 0) ++both;
        inside.fetch_sub(1, std::memory_order_relaxed);
      }
      busy.store(0, std::memory_order_release);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    claimed.store(1, std::memory_order_relaxed);
    ASSERT_TRUE(os::process_fence());
    if (busy.load(std::memory_order_acquire) == 0) {
      if (inside.fetch_add(1, std::memory_order_relaxed) != 0) ++both;
      inside.fetch_sub(1, std::memory_order_relaxed);
    }
    claimed.store(0, std::memory_order_release);
  }
  ends = true;
  owner.join();
  EXPECT_EQ(both, 0);
}

}  // namespace
}  // namespace tarn
