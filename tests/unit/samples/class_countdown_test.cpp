// SPDX-License-Identifier: MIT
// class_countdown: an early stop that another thread asks for loses no count.
#include "samples/class_countdown.hpp"

#include <gtest/gtest.h>

#include "base/compiler.hpp"

#include <atomic>
#include <thread>

namespace tarn {
namespace {

TEST(class_countdown, an_expired_one_is_negative_and_keeps_its_value) {
  for (const std::int32_t value : {0, 1, 1000, class_countdown::longest_step}) {
    class_countdown c{value, 0};
    EXPECT_TRUE(c.expire());
    EXPECT_LT(c.until_sample, 0);
    EXPECT_EQ(c.value(), value);
    EXPECT_FALSE(c.expire()) << "a stop is due anyway";
  }
}

TEST(class_countdown, of_a_thread_that_counts_nothing_is_expired) {
  for (const std::int32_t below : {0, 1, 1000}) {
    class_countdown c{class_countdown::counted - below, 0};
    EXPECT_FALSE(c.expire());
    EXPECT_EQ(c.value(), class_countdown::counted - below);
    // The thread has begun to count between the other thread's look and its change.
    c.until_sample -= class_countdown::expired;
    EXPECT_EQ(c.value(), class_countdown::counted - below);
  }
}

TEST(class_countdown, counts_of_the_owner_are_not_lost) {
  if (TARN_TSAN) GTEST_SKIP() << "the owner's access is not atomic, on purpose";
  class_countdown c{class_countdown::longest_step, 0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) c.expire();
  });
  std::int32_t counted = 0;
  volatile std::int32_t* const until = &c.until_sample;
  int expired = 0;
  for (; counted < 20000000; ++counted) {
#if defined(__x86_64__)
    asm volatile("subl $1, %0" : "+m"(c.until_sample) : : "cc");  // as the fast path does
#else
    *until = *until - 1;
#endif
    if (*until < 0) {
      // Taken back by one store, as slow paths do; what expire() does between the two is lost as a whole.
      c.until_sample = c.value();
      ++expired;
    }
  }
  stop = true;
  other.join();
  EXPECT_EQ(c.value(), class_countdown::longest_step - counted);
  EXPECT_GT(expired, 0);
}

}  // namespace
}  // namespace tarn
