// SPDX-License-Identifier: MIT
// caretaker: when its thread lives, what a hold does, and the work without a thread. How it wakes and stops: the
// models in tests/weak_memory; its end at exit: tests/pools/recycler_ends.
#include "background/caretaker.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include "../../system_probes.hpp"
#include "base/hardened.hpp"
#include "tarn/malloc.h"
#include "tarn/process.hpp"
#include "tarn/recycler.hpp"

namespace {

namespace caretaker = tarn::caretaker;
using namespace std::chrono_literals;

std::ptrdiff_t threads_now() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

template <class Condition>
bool comes_true(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + 5s * system_probes::slowness();
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

struct kept_object {
  ~kept_object() { ++ended; }
  static inline std::atomic<int> ended = 0;
};

// Makes the end of its thread last a while.
struct slow_end {
  ~slow_end() {
    begun = true;
    std::this_thread::sleep_for(100ms);
  }
  void note() { noted = true; }
  bool noted = false;
  static inline std::atomic<bool> begun = false;
};
thread_local slow_end end_of_thread;

struct object_with_slow_end {
  ~object_with_slow_end() { end_of_thread.note(); }
};

// Begins and ends without the thread.
class caretaker_test : public testing::Test {
 protected:
  void SetUp() override {
    tarn::trim();
    std::thread([] {}).join();  // the first thread brings one of ThreadSanitizer with it
    ASSERT_TRUE(comes_true([this] {
      caretaker::hold();
      caretaker::release();
      before_ = threads_now();
      std::this_thread::sleep_for(2ms);
      return before_ == threads_now();
    }));
    kept_object::ended = 0;
  }
  void TearDown() override { tarn_set_option("background", "auto"); }

  [[nodiscard]] bool lives() const { return threads_now() > before_; }
  static void make_idle(tarn::recycler<kept_object>& objects) { static_cast<void>(objects.get()); }

  std::ptrdiff_t before_ = 0;
};

class caretaker_thread_test : public caretaker_test {
 protected:
  void SetUp() override {
    if (tarn::hardened_build) GTEST_SKIP() << "the hardened build has no such thread";
    caretaker_test::SetUp();
  }
};

constexpr tarn::recycler_options slow_cycle{.cycle = std::chrono::milliseconds(60'000)};

TEST_F(caretaker_thread_test, lives_while_an_object_is_idle) {
  {
    tarn::recycler<kept_object> objects(slow_cycle);
    EXPECT_FALSE(lives());
    make_idle(objects);
    EXPECT_TRUE(comes_true([this] { return lives(); }));
  }
  EXPECT_TRUE(comes_true([this] { return !lives(); }));
}

TEST_F(caretaker_thread_test, a_hold_ends_it_and_the_last_release_starts_it_again) {
  tarn::recycler<kept_object> objects(slow_cycle);
  make_idle(objects);
  ASSERT_TRUE(comes_true([this] { return lives(); }));
  caretaker::hold();
  EXPECT_FALSE(lives());
  caretaker::hold();
  caretaker::wake();
  caretaker::release();
  caretaker::wake();
  EXPECT_FALSE(lives()) << "still held once";
  caretaker::release();
  EXPECT_TRUE(comes_true([this] { return lives(); }));
}

// Its thread-local data has destructors.
TEST_F(caretaker_thread_test, a_hold_waits_for_a_thread_that_ends_by_itself) {
  tarn::recycler<object_with_slow_end> objects({.cycle = std::chrono::milliseconds(20)});
  static_cast<void>(objects.get());
  ASSERT_TRUE(comes_true([] { return slow_end::begun.load(); }));
  caretaker::hold();
  EXPECT_FALSE(lives());
  caretaker::release();
}

TEST_F(caretaker_thread_test, a_hold_without_a_thread_starts_none) {
  caretaker::hold();
  caretaker::release();
  caretaker::release();  // as in a child that was forked between the two
  EXPECT_FALSE(lives());
  tarn::recycler<kept_object> objects(slow_cycle);
  caretaker::hold();
  make_idle(objects);
  EXPECT_FALSE(lives()) << "the hold counts";
  caretaker::release();
  EXPECT_TRUE(comes_true([this] { return lives(); }));
}

TEST_F(caretaker_test, without_a_thread_the_callers_end_generations_that_are_due) {
  ASSERT_EQ(tarn_set_option("background", "off"), 0);
  tarn::recycler<kept_object> objects({.cycle = std::chrono::milliseconds(20)});
  make_idle(objects);
  EXPECT_FALSE(lives());
  caretaker::run_inline_if_no_thread();
  EXPECT_EQ(kept_object::ended, 0) << "not used for less than a cycle";
  EXPECT_TRUE(comes_true([] {
    caretaker::run_inline_if_no_thread();
    return kept_object::ended == 1;
  }));
  EXPECT_FALSE(lives());
}

}  // namespace
