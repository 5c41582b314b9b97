// SPDX-License-Identifier: MIT
// pressure_callbacks: their order, their removal while they run, and fork; and tarn::on_pressure, whose calls a soft limit
// of a few bytes causes.
#include "background/pressure_callbacks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../system_probes.hpp"
#include "../broken_invariant.hpp"
#include "base/hardened.hpp"
#include "tarn/process.hpp"
#include "tarn/recycler.hpp"

namespace tarn {

class pressure_callbacks_test_access {
 public:
  static std::atomic<std::size_t>& count(pressure_callbacks& c) { return c.count_; }
  static tarn_pressure_callback*& next(pressure_callbacks& c) TARN_NOT_ANALYZED { return c.next_; }
  static tarn_pressure_callback*& running(pressure_callbacks& c) TARN_NOT_ANALYZED { return c.running_; }
};

namespace {

using namespace std::chrono_literals;

struct caller {
  std::string& log;
  char name;
  pressure_callbacks* all = nullptr;
  tarn_pressure_callback* removes = nullptr;
  tarn_pressure_callback callback{&caller::call, this, nullptr};
  static void call(void* self, const tarn_pressure*) {
    auto* const me = static_cast<caller*>(self);
    me->log += me->name;
    if (me->removes != nullptr) me->all->remove(*me->removes);
  }
};

TEST(pressure_callbacks, are_called_in_order) {
  pressure_callbacks all;
  std::string log;
  caller a{log, 'a'};
  caller b{log, 'b'};
  EXPECT_TRUE(all.empty());
  all.add(a.callback);
  all.add(b.callback);
  all.add(a.callback);
  all.call_all({});
  EXPECT_EQ(log, "ab");
  all.remove(a.callback);
  all.remove(a.callback);
  all.call_all({});
  EXPECT_EQ(log, "abb");
  all.remove(b.callback);
  all.call_all({});
  EXPECT_EQ(log, "abb");
  EXPECT_TRUE(all.empty());
}

TEST(pressure_callbacks, may_remove_themselves_and_the_next) {
  pressure_callbacks all;
  std::string log;
  caller a{log, 'a', &all};
  caller b{log, 'b', &all};
  caller c{log, 'c', &all};
  a.removes = &b.callback;
  c.removes = &c.callback;
  for (caller* each : {&a, &b, &c}) all.add(each->callback);
  all.call_all({});
  EXPECT_EQ(log, "ac");
  all.call_all({});
  EXPECT_EQ(log, "aca");
}

TEST(pressure_callbacks, removal_waits_for_the_call) {
  pressure_callbacks all;
  static std::atomic<int> step;
  step = 0;
  tarn_pressure_callback slow{[](void*, const tarn_pressure*) {
                                step = 1;
                                std::this_thread::sleep_for(50ms);
                                step = 2;
                              },
                              nullptr, nullptr};
  all.add(slow);
  std::thread runner([&] { all.call_all({}); });
  while (step == 0) std::this_thread::yield();
  all.remove(slow);
  EXPECT_EQ(step, 2);
  runner.join();
}

TEST(pressure_callbacks, finds_a_broken_invariant) {
  using access = pressure_callbacks_test_access;
  pressure_callbacks all;
  const auto validate = [&]() TARN_NOT_ANALYZED { all.validate_locked(); };
  tarn_pressure_callback other{};
  validate();
  access::count(all) = 1;
  EXPECT_BROKEN(validate(), "pressure_callbacks", "length == count_.load(std::memory_order_relaxed)", &all);
  access::count(all) = 0;
  access::next(all) = &other;
  EXPECT_BROKEN(validate(), "pressure_callbacks", "has_next", &all);
  access::next(all) = nullptr;
  access::running(all) = &other;
  EXPECT_BROKEN(validate(), "pressure_callbacks", "running_ == nullptr || runner_ != nullptr", &all);
  access::running(all) = nullptr;
  validate();
}

// Not under a sanitizer, where malloc is the sanitizer's, nor in the hardened build, which has no thread.
class on_pressure_test : public testing::Test {
 protected:
  void TearDown() override { tarn_set_option("limit", "auto"); }
};

TEST_F(on_pressure_test, is_called_above_the_soft_limit_and_not_below) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no thread";
  std::atomic<int> calls{0};
  std::atomic<std::uint64_t> soft{0};
  std::mutex of_program;
  {
    const auto registration = on_pressure([&](const tarn_pressure& now) {
      const std::lock_guard guard(of_program);
      tarn_free(tarn_malloc(100));
      soft = now.soft;
      ++calls;
    });
    if (!registration.is_active()) GTEST_SKIP() << "no thread can be started";
    std::this_thread::sleep_for(150ms);
    EXPECT_EQ(calls, 0);
    ASSERT_EQ(tarn_set_option("limit", "64K"), 0);
    const std::lock_guard guard(of_program);  // the callback waits for it, and allocations go on all the same
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) tarn_free(tarn_malloc(std::size_t{1} << 20));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s * system_probes::slowness());
  }
}

// Neither by time alone, nor with each generation of a recycler.
TEST_F(on_pressure_test, is_called_ever_less_often_while_it_frees_nothing) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no thread";
  std::atomic<int> calls{0};
  recycler<std::string> others({.cycle = std::chrono::milliseconds(10)});
  void* const block = std::memset(tarn_malloc(1 << 20), 1, 1 << 20);
  ASSERT_EQ(tarn_set_option("limit", "64K"), 0);
  const auto registration = on_pressure([&](const tarn_pressure&) { ++calls; });
  if (!registration.is_active()) GTEST_SKIP() << "no thread can be started";
  const auto latest = std::chrono::steady_clock::now() + 10s * system_probes::slowness();
  while (calls == 0 && std::chrono::steady_clock::now() < latest) std::this_thread::sleep_for(1ms);
  const int before = calls;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_GT(before, 0);
  for (int i = 0; i < 70; ++i) {
    static_cast<void>(others.get());
    std::this_thread::sleep_for(10ms);
  }
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(calls - before, 3 + elapsed / 200ms) << "after 100, 300, 700 and 1500 ms";
  tarn_free(block);
}

TEST_F(on_pressure_test, gets_the_figures) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no thread";
  std::atomic<std::uint64_t> soft{0};
  const auto registration = on_pressure([&](const tarn_pressure& now) { soft = now.soft; });
  if (!registration.is_active()) GTEST_SKIP() << "no thread can be started";
  ASSERT_EQ(tarn_set_option("limit", "64K"), 0);
  const auto until = std::chrono::steady_clock::now() + 10s * system_probes::slowness();
  while (soft == 0 && std::chrono::steady_clock::now() < until) {
    tarn_free(tarn_malloc(std::size_t{1} << 20));
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(soft, 64U << 10);
  tarn_pressure now{};
  void* const block = tarn_malloc(std::size_t{1} << 20);
  tarn_get_pressure(&now);
  tarn_free(block);
  EXPECT_EQ(now.level, 1U);
  EXPECT_GE(now.used, now.soft);
}

// The callback waits for a lock that the thread holds whose request the hard limit refuses.
TEST_F(on_pressure_test, a_refused_request_waits_once_for_all_its_tries) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no thread";
  std::mutex of_program;
  std::atomic<bool> waits{false};
  const auto registration = on_pressure([&](const tarn_pressure&) {
    waits = true;
    const std::lock_guard guard(of_program);
  });
  if (!registration.is_active()) GTEST_SKIP() << "no thread can be started";
  tarn_pressure now{};
  tarn_get_pressure(&now);
  const std::uint64_t hard = now.used + (64 << 20);
  ASSERT_EQ(tarn_set_option("limit", ("none," + std::to_string(hard)).c_str()), 0);
  const std::lock_guard guard(of_program);
  const auto until = std::chrono::steady_clock::now() + 10s * system_probes::slowness();
  while (!waits && std::chrono::steady_clock::now() < until) {
    EXPECT_EQ(tarn_malloc(hard - 4096), nullptr);
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(waits);
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tarn_malloc(hard - 4096), nullptr);
    shortest = std::min(shortest, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_GE(shortest, 50ms) << "it waits for the round";
  EXPECT_LT(shortest, 200ms * system_probes::slowness());
}

TEST_F(on_pressure_test, a_hard_limit_below_what_is_in_use_is_reported_once) {
  void* const block = tarn_malloc(8 << 20);
  testing::internal::CaptureStderr();
  ASSERT_EQ(tarn_set_option("limit", "none,4M"), 0);
  EXPECT_EQ(tarn_malloc(1 << 20), nullptr);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the hard limit of option limit, 4194304 bytes now, is below the "), std::string::npos)
      << said;
  testing::internal::CaptureStderr();
  EXPECT_EQ(tarn_malloc(1 << 20), nullptr);
  tarn_pressure now{};
  tarn_get_pressure(&now);
  tarn_free(block);
  ASSERT_EQ(tarn_set_option("limit", "none,1G"), 0);
  tarn_free(tarn_malloc(1 << 20));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(on_pressure_test, an_allocation_above_the_hard_limit_fails) {
  tarn_pressure now{};
  ASSERT_EQ(tarn_set_option("limit", "1G"), 0);
  tarn_get_pressure(&now);
  const std::string both = "none," + std::to_string(now.used + (64 << 20));
  ASSERT_EQ(tarn_set_option("limit", both.c_str()), 0);
  void* const fits = tarn_malloc(16 << 20);
  EXPECT_NE(fits, nullptr);
  EXPECT_EQ(tarn_malloc(80 << 20), nullptr);
  EXPECT_EQ(tarn_realloc(fits, 80 << 20), nullptr);
  std::vector<void*> blocks;
  for (;;) {
    void* const block = tarn_malloc(30000);
    if (block == nullptr) break;
    blocks.push_back(block);
    ASSERT_LT(blocks.size(), 4000U);
  }
  const std::uint64_t hard = now.used + (64 << 20);
  tarn_get_pressure(&now);
  EXPECT_EQ(now.hard, hard);
  ASSERT_EQ(tarn_set_option("limit", (std::to_string(hard) + "," + std::to_string(hard)).c_str()), 0);
  tarn_get_pressure(&now);
  EXPECT_LE(now.used, now.hard + (64 << 10)) << "only metadata may exceed it";
  for (void* const block : blocks) tarn_free(block);
  void* const again = tarn_malloc(32 << 20);
  EXPECT_NE(again, nullptr) << "free memory goes back for it";
  tarn_free(again);
  tarn_free(fits);
}

}  // namespace
}  // namespace tarn
