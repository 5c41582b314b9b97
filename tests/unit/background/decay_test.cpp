// SPDX-License-Identifier: MIT
// Decay: idle memory is returned by periods, by the background thread, or by the program's own threads.
#include "background/decay.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/compiler.hpp"
#include "engine/engine.hpp"
#include "engine/restore.hpp"

namespace tarn {
namespace {

using namespace std::chrono_literals;
using testing_support::restore_options;

bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds limit = 10000ms) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

void use_and_free(std::size_t size, std::size_t count) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) {
    block = tarn_malloc(size);
    std::memset(block, 1, size);
  }
  for (void* block : blocks) tarn_free(block);
}

std::size_t idle_bytes() {
  return engine::heap.dirty_bytes() + engine::warm_large_spans.bytes() +
         engine::central_tier.depots().spare_bytes();
}

TEST(decay, periods_give_everything_idle_back) {
  restore_options restore;
  tarn_set_option("decay_ms", "-1");
  use_and_free(64 * kib, 200);
  use_and_free(1 * mib, 4);
  EXPECT_NE(idle_bytes(), 0U);
  bool left = true;
  for (int period = 0; period < 6 && left; ++period) left = decay::run_period();
  EXPECT_FALSE(left);
  EXPECT_EQ(idle_bytes(), 0U);
  engine::heap.validate();
}

TEST(decay, a_period_takes_what_an_idle_thread_does_not_need) {
  restore_options restore;
  tarn_set_option("decay_ms", "-1");
  tarn_trim(0);
  std::atomic<int> phase{0};
  std::thread idle([&phase] {
    use_and_free(64, 20000);
    phase = 1;
    while (phase == 1) std::this_thread::sleep_for(1ms);
    use_and_free(64, 1000);  // the cache works on
  });
  while (phase == 0) std::this_thread::sleep_for(1ms);
  const auto cached = [] {
    tarn_stats s;
    tarn_get_stats(&s);
    return s.cached;
  };
  const std::uint64_t before = cached();
  for (int period = 0; period < 6; ++period) decay::run_period();
  EXPECT_LT(cached(), before);
  phase = 2;
  idle.join();
}

TEST(decay, a_sleeping_program_gives_its_memory_back) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "there is no background thread under sanitizers";
  restore_options restore;
  ASSERT_EQ(tarn_set_option("background", "on"), 0);
  ASSERT_EQ(tarn_set_option("decay_ms", "40"), 0);
  for (int round = 0; round < 3; ++round) {
    // In round 1, empty spans of objects wake the thread, by central; in the others, large blocks, by the page heap.
    round == 1 ? use_and_free(64, 4 * mib / 64) : use_and_free(300 * kib, 20);
    EXPECT_TRUE(wait_until([] { return idle_bytes() == 0; })) << idle_bytes();
  }
}

TEST(decay, a_thread_that_sleeps_through_a_long_period_hears_of_a_shorter_one) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "there is no background thread under sanitizers";
  restore_options restore;
  ASSERT_EQ(tarn_set_option("background", "on"), 0);
  ASSERT_EQ(tarn_set_option("decay_ms", "100000"), 0);
  use_and_free(300 * kib, 20);
  std::this_thread::sleep_for(50ms);
  ASSERT_NE(idle_bytes(), 0U);
  ASSERT_EQ(tarn_set_option("decay_ms", "40"), 0);
  EXPECT_TRUE(wait_until([] { return idle_bytes() == 0; })) << idle_bytes();
}

TEST(decay, without_a_thread_the_programs_own_threads_give_memory_back) {
  restore_options restore;
  ASSERT_EQ(tarn_set_option("background", "off"), 0);
  ASSERT_EQ(tarn_set_option("decay_ms", "20"), 0);
  use_and_free(300 * kib, 40);
  const std::uint64_t before = engine::heap.stats().returned;
  // Allocating and freeing large blocks runs the periods.
  EXPECT_TRUE(wait_until([before] {
    use_and_free(2 * mib, 1);
    return engine::heap.stats().returned >= before + 8 * mib;
  }));
}

// Nobody comes back later.
TEST(decay, without_a_thread_little_waits_while_the_program_rests) {
  restore_options restore;
  ASSERT_EQ(tarn_set_option("background", "off"), 0);
  ASSERT_EQ(tarn_set_option("decay_ms", "100000"), 0);
  use_and_free(1 * mib, 200);
  EXPECT_LE(engine::heap.dirty_bytes(), std::max(64 * mib, engine::heap.in_use_bytes()));
}

TEST(decay, never_means_never) {
  restore_options restore;
  ASSERT_EQ(tarn_set_option("decay_ms", "-1"), 0);
  tarn_trim(0);
  const std::uint64_t before = engine::heap.stats().returned;
  use_and_free(300 * kib, 40);
  std::this_thread::sleep_for(200ms);
  use_and_free(300 * kib, 40);
  EXPECT_EQ(engine::heap.stats().returned, before);
  EXPECT_GE(engine::heap.dirty_bytes(), 8 * mib);
}

// tarn_trim() walks the list of threads. The memory that it returns may make a period due, which walks the list too.
TEST(decay, a_period_that_falls_due_inside_another_walk_of_all_threads) {
  restore_options restore;
  ASSERT_EQ(tarn_set_option("background", "off"), 0);
  ASSERT_EQ(tarn_set_option("decay_ms", "-1"), 0);
  tarn_trim(0);
  std::atomic<int> phase{0};
  std::thread idle([&phase] {
    std::vector<void*> blocks(4000);
    for (void*& block : blocks) block = tarn_malloc(1024);
    for (void* block : blocks) tarn_free(block);
    phase = 1;
    while (phase == 1) std::this_thread::sleep_for(1ms);
  });
  while (phase == 0) std::this_thread::sleep_for(1ms);
  ASSERT_GE(engine::central_tier.depots().spare_bytes() + engine::heap.dirty_bytes(), mib)
      << "too little idle memory to make a period due";
  ASSERT_EQ(tarn_set_option("decay_ms", "20"), 0);
  std::this_thread::sleep_for(50ms);
  std::atomic<bool> done{false};
  std::thread watchdog([&done] {
    for (int i = 0; i < 2000 && !done; ++i) std::this_thread::sleep_for(10ms);
    if (done) return;
    constexpr char message[] = "tarn_trim has waited 20 s for itself\n";
    if (write(2, message, sizeof message - 1) < 0) _exit(4);
    _exit(3);
  });
  tarn_trim(0);
  done = true;
  watchdog.join();
  phase = 2;
  idle.join();
}

}  // namespace
}  // namespace tarn
