// SPDX-License-Identifier: MIT
#include "engine/slow_calls.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "engine/restore.hpp"
#include "os/sandbox.hpp"
#include "tarn/malloc.h"

namespace tarn::slow_calls {
namespace {

// Calls by duration, of all threads, and all calls of each class of threads.
struct durations_of {
  std::map<double, std::uint64_t> up_to[kinds];  // calls that took no longer
  std::map<std::string, std::uint64_t> of_thread;
  std::string first_labels;

  // Calls of at most so many seconds.
  std::uint64_t within(kind what, double seconds) const {
    const auto& counts = up_to[static_cast<unsigned>(what)];
    const auto after = counts.upper_bound(seconds);
    return after == counts.begin() ? 0 : std::prev(after)->second;
  }
  std::uint64_t all(kind what) const { return within(what, HUGE_VAL); }
  std::uint64_t all() const {
    std::uint64_t sum = 0;
    for (const auto& [name, calls] : of_thread) sum += calls;
    return sum;
  }
  std::uint64_t calls_of(const std::string& name) const {
    const auto found = of_thread.find(name);
    return found == of_thread.end() ? 0 : found->second;
  }
  void add(const std::string& labels, const std::uint64_t* values) {
    const std::string begin = "thread=\"";
    const std::string between = "\",le=\"";
    const std::size_t at = labels.rfind(between);
    ASSERT_TRUE(labels.starts_with(begin) && labels.ends_with('"') && at != std::string::npos) << labels;
    const std::string name = labels.substr(begin.size(), at - begin.size());
    const double seconds = std::strtod(labels.c_str() + at + between.size(), nullptr);
    if (first_labels.empty()) first_labels = labels;
    for (unsigned k = 0; k < kinds; ++k) {
      if (values[k] == no_value) continue;
      up_to[k][seconds] += values[k];
      if (std::isinf(seconds)) of_thread[name] += values[k];
    }
  }
};

durations_of now() {
  durations_of out;
  metrics.visit({[](void* to, const char* labels, const std::uint64_t* values) {
                   static_cast<durations_of*>(to)->add(labels, values);
                 },
                 &out});
  return out;
}

void add_frees(unsigned calls) {
  for (unsigned i = 0; i < calls; ++i) add(kind::free, os::now_ns());
}

// In a new thread of this name.
void add_frees_as(const std::string& name, unsigned calls) {
  std::thread([&] {
    ASSERT_EQ(pthread_setname_np(pthread_self(), name.c_str()), 0);
    add_frees(calls);
  }).join();
}

TEST(slow_calls, a_call_counts_for_each_duration_that_it_did_not_exceed) {
  const durations_of before = now();
  add(kind::large_free, os::now_ns() - 3'000'000);
  const durations_of after = now();
  EXPECT_TRUE(after.first_labels.ends_with(",le=\"0.000000256\"")) << after.first_labels;
  EXPECT_EQ(metrics.label, nullptr);
  EXPECT_EQ(after.all(kind::large_free), before.all(kind::large_free) + 1);
  EXPECT_EQ(after.within(kind::large_free, 0.0025), before.within(kind::large_free, 0.0025))
      << "it took 3 ms";
  EXPECT_EQ(after.within(kind::large_free, 1), before.within(kind::large_free, 1) + 1);
  EXPECT_EQ(after.all(kind::free), before.all(kind::free));
}

TEST(slow_calls, the_longest_calls_have_a_count_too) {
  const durations_of before = now();
  add(kind::allocation, os::now_ns() - 5'000'000'000);
  const durations_of after = now();
  EXPECT_EQ(after.within(kind::allocation, 4), before.within(kind::allocation, 4));
  EXPECT_EQ(after.all(kind::allocation), before.all(kind::allocation) + 1);
}

void take_and_give_blocks() {
  std::vector<void*> blocks;
  for (int i = 0; i < 5'000; ++i) blocks.push_back(tarn_malloc(200));
  for (void* const block : blocks) tarn_free(block);
  tarn_free(tarn_malloc(3 << 20));
}

TEST(slow_calls, counts_only_while_the_option_is_on) {
  testing_support::restore_options restore;
  const durations_of before = now();
  take_and_give_blocks();
  for (const kind each : {kind::allocation, kind::large_allocation, kind::free, kind::large_free})
    EXPECT_EQ(now().all(each), before.all(each));
  ASSERT_EQ(tarn_set_option("slow_calls", "on"), 0);
  take_and_give_blocks();
  for (const kind each : {kind::allocation, kind::large_allocation, kind::free, kind::large_free})
    EXPECT_GT(now().all(each), before.all(each)) << static_cast<int>(each);
  EXPECT_LT(now().all(kind::allocation) - before.all(kind::allocation), 5'000U)
      << "most are served by the cache";
}

TEST(slow_calls, threads_count_by_their_names_without_numbers) {
  const durations_of before = now();
  add_frees_as("worker-1", 3);
  add_frees_as("worker-12", 4);
  add_frees_as("net/0:3 #4", 5);
  add_frees_as("42", 6);
  const durations_of after = now();
  EXPECT_EQ(after.calls_of("worker"), 7U);
  EXPECT_EQ(after.calls_of("net"), 5U);
  EXPECT_EQ(after.calls_of("other"), before.calls_of("other") + 6) << "no name is left";
  EXPECT_EQ(after.all(), before.all() + 18);
  EXPECT_EQ(after.all(kind::free), before.all(kind::free) + 18);
}

TEST(slow_calls, a_name_that_comes_after_the_first_call_counts_soon) {
  const durations_of before = now();
  std::thread([] {
    add_frees(1);
    pthread_setname_np(pthread_self(), "late");
    add_frees(3000);
  }).join();
  EXPECT_EQ(now().calls_of("late"), 3000U);
  std::thread([] {
    add_frees(3000);
    pthread_setname_np(pthread_self(), "very late");
    add_frees(2048);
  }).join();
  EXPECT_GE(now().calls_of("very late"), 1024U);
  EXPECT_EQ(now().all(), before.all() + 8049);
}

TEST(slow_calls, names_are_written_as_openmetrics_wants_them) {
  add_frees_as("a\"b\\c\n\1d-7", 1);
  EXPECT_EQ(now().calls_of("a\\\"b\\\\c??d"), 1U);
  add_frees_as("\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"", 2);
  EXPECT_EQ(now().calls_of("\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\""), 2U);
}

// In a child, as the table of names stays full.
TEST(slow_calls, threads_beyond_the_fifteenth_name_and_under_a_filter_count_together) {
  const auto child = [] {
    const durations_of before = now();
    std::vector<std::thread> threads;
    for (char name = 'a'; name < 'a' + 20; ++name) {
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([name] {
          pthread_setname_np(pthread_self(), (std::string("thread ") + name).c_str());
          add_frees(100);
        });
    }
    for (std::thread& each : threads) each.join();
    const durations_of after = now();
    std::uint64_t named = 0;
    for (const auto& [name, calls] : after.of_thread) {
      if (!name.starts_with("thread ")) continue;
      ++named;
      EXPECT_EQ(calls, 400U) << name;
    }
    EXPECT_LE(after.of_thread.size(), 16U);
    EXPECT_GE(named, 5U);
    EXPECT_EQ(after.calls_of("other"), before.calls_of("other") + (20 - named) * 400);
    EXPECT_EQ(after.all(), before.all() + 8000);
    os::note_sandbox();
    add_frees_as("thread a", 10);
    EXPECT_EQ(now().calls_of("other"), after.calls_of("other") + 10);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tarn::slow_calls
