// SPDX-License-Identifier: MIT
// futex_wait and futex_wake, and that the coarse clock follows real time.
#include "os/futex.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "os/clock.hpp"

namespace tarn::os {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

TEST(futex, returns_at_once_when_the_word_has_changed) {
  futex_word word{1};
  const auto start = clock::now();
  futex_wait(&word, 0);
  EXPECT_LT(clock::now() - start, 5s);
}

TEST(futex, returns_after_the_limit) {
  futex_word word{0};
  const auto start = clock::now();
  // A wait may end spuriously, but not ten times in a row.
  for (int i = 0; i < 10 && clock::now() - start < 60ms; ++i) futex_wait(&word, 0, 60);
  EXPECT_GE(clock::now() - start, 59ms);
}

TEST(futex, wakes) {
  futex_word word{0};
  std::thread sleeper([&] {
    while (word.load(std::memory_order_acquire) == 0) futex_wait(&word, 0);
  });
  std::this_thread::sleep_for(30ms);
  word.store(1, std::memory_order_release);
  futex_wake(&word, 1);
  sleeper.join();
}

TEST(futex, leaves_errno_alone) {
  futex_word word{1};
  errno = 1234;
  futex_wait(&word, 0);
  EXPECT_EQ(errno, 1234);
}

TEST(clock, never_goes_back_and_follows_real_time) {
  const std::int64_t start = now_ms();
  std::int64_t last = start;
  while (last - start < 50) {
    const std::int64_t now = now_ms();
    ASSERT_GE(now, last);
    last = now;
  }
  const auto exact = clock::now().time_since_epoch() / 1ms;
  EXPECT_NEAR(static_cast<double>(now_ms()), static_cast<double>(exact), 100.0);
}

}  // namespace
}  // namespace tarn::os
