// SPDX-License-Identifier: MIT
// pin_count: counting pins, and waiting until the last one is gone.
#include "os/pin_count.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "broken_invariant.hpp"
#include "os/mutex.hpp"

namespace tarn::os {

class pin_count_test_access {
 public:
  // As many pins as can be counted.
  static void fill(pin_count& pins) { pins.set(pin_count::ending - 1); }
};

namespace {

TEST(pin_count, counts_and_tells_the_last_one_of_an_ending) {
  pin_count pins;
  EXPECT_TRUE(pins.is_free());
  pins.pin();
  pins.pin();
  EXPECT_FALSE(pins.unpin());
  pins.begin_ending();
  EXPECT_TRUE(pins.is_ending());
  EXPECT_FALSE(pins.is_free());
  EXPECT_TRUE(pins.unpin()) << "the last unpin must report that a thread may wait";
  EXPECT_TRUE(pins.is_free());
  pins.stop_ending();
  EXPECT_FALSE(pins.is_ending());
}

TEST(pin_count, a_pin_from_before_a_fork_may_end_after_it) {
  pin_count pins;
  pins.pin();
  pins.reset();
  EXPECT_FALSE(pins.unpin());
  EXPECT_TRUE(pins.is_free());
}

TEST(pin_count, the_one_that_ends_sleeps_until_the_last_pin_is_gone) {
  pin_count pins;
  mutex lock{lock_rank::pools};
  pins.pin();
  std::thread worker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    bool ends = false;
    {
      lock_guard guard(lock);
      ends = pins.unpin();
    }
    EXPECT_TRUE(ends);
    if (ends) pins.wake();
  });
  for (;;) {
    {
      lock_guard guard(lock);
      pins.begin_ending();
      if (pins.is_free()) break;
    }
    pins.wait();
  }
  worker.join();
  EXPECT_TRUE(pins.is_free());
}

TEST(pin_count, a_pin_is_counted_while_ending) {
  pin_count pins;
  pins.begin_ending();
  pins.pin();
  EXPECT_FALSE(pins.is_free());
  EXPECT_TRUE(pins.unpin());
  EXPECT_TRUE(pins.is_ending());
}

#if TARN_CHECKS
TEST(pin_count, finds_a_broken_invariant) {
  pin_count pins;
  pin_count_test_access::fill(pins);
  EXPECT_BROKEN(pins.pin(), "pin_count", "(value() & ~ending) + 1 < ending", &pins);
}
#endif

}  // namespace
}  // namespace tarn::os
