// SPDX-License-Identifier: MIT
// scope_bin: objects that pass through a thread's bin of a scope, and its invariants.
#include "fronts/scopes/scope_bin.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "broken_invariant.hpp"
#include "engine/restore.hpp"
#include "tarn/scope.hpp"

namespace tarn {

class scope_bin_test_access {
 public:
  static std::uint8_t& most(scope_bin& b, unsigned c) { return b.most_[c]; }
};

namespace {

TEST(scope_bin, serves_and_takes_back_without_its_scope) {
  scope s("bin");
  {
    const scope_entry in = s.enter();
    scope_bin& bin = *current_scope_bin;
    std::set<void*> blocks;
    for (int i = 0; i < 500; ++i) EXPECT_TRUE(blocks.insert(tarn_malloc(64)).second);
    bin.validate();
    for (void* const block : blocks) tarn_free(block);
    bin.validate();
    EXPECT_GT(bin.count(), 0U);
    // The last one freed is the next one.
    void* const block = tarn_malloc(64);
    tarn_free(block);
    EXPECT_EQ(tarn_malloc(64), block);
    tarn_free(block);
    // In a scope, 8 bytes take 16.
    void* const least = tarn_malloc(8);
    EXPECT_EQ(tarn_usable_size(least), hardened_build ? 8U : 16U);
    tarn_free(least);
    bin.validate();
  }
  EXPECT_EQ(s.end().blocks, 0U);
}

// The estimate of what was allocated in a scope, by samples.
std::uint64_t profiled_bytes() {
  std::uint64_t bytes = 0;
  tarn_visit_profile(
      [](void* context, const tarn_profile_site* site) {
        *static_cast<std::uint64_t*>(context) += site->bytes;
      },
      &bytes);
  return bytes;
}

TEST(scope_bin, allocations_are_profiled) {
  constexpr int count = 200000;
  // Each block lives alone, so all pops but few hit; of the larger sizes the bin has no objects, so all miss.
  for (const std::size_t size : {256U, 3072U, 65536U}) {
    scope s("profiled");
    ASSERT_EQ(tarn_profile_start(16 * size), 0);
    const std::uint64_t before = profiled_bytes();
    std::size_t taken = 0;
    {
      const scope_entry in = s.enter();
      for (int i = 0; i < count; ++i) {
        void* volatile block = tarn_malloc(size);
        taken = tarn_usable_size(block) + (hardened_build ? canary_bytes : 0);
        tarn_free(block);
      }
    }
    tarn_profile_stop();
    const double ratio =
        static_cast<double>(profiled_bytes() - before) / (static_cast<double>(taken) * count);
    // About 12,500 samples: a standard deviation of 0.9 %.
    EXPECT_NEAR(ratio, 1, 0.05) << size;
    EXPECT_EQ(s.end().blocks, 0U);
  }
}

// More samples are due in a second than are followed, so most are refused.
TEST(scope_bin, allocations_are_profiled_without_bias_when_samples_are_refused) {
  constexpr std::size_t size = 256 * kib - 16;
  int count = 0;
  scope s("thinned");
  ASSERT_EQ(tarn_profile_start(0), 0);
  const std::uint64_t before = profiled_bytes();
  std::size_t usable = 0;
  {
    const scope_entry in = s.enter();
    // By time, not by number: how many samples are followed depends on it alone.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (; std::chrono::steady_clock::now() < end; ++count) {
      void* volatile block = tarn_malloc(size);
      usable = tarn_usable_size(block) + (hardened_build ? canary_bytes : 0);
      tarn_free(block);
    }
  }
  tarn_profile_stop();
  const double ratio = static_cast<double>(profiled_bytes() - before) / (static_cast<double>(usable) * count);
  // About 1,000 samples are followed in a second: a standard deviation of 3 %.
  EXPECT_NEAR(ratio, 1, 0.16);
}

// It allocates nothing else, so none of its pops misses.
TEST(scope_bin, a_switch_of_the_profile_reaches_a_thread_in_a_scope) {
  if (TARN_TSAN) GTEST_SKIP() << "a switch reaches no other thread's bins there (engine/profile_switch.cpp)";
  constexpr std::size_t size = 64;
  constexpr int count = 400000;
  scope s("switched");
  const auto work = [](int times) {
    for (int i = 0; i < times; ++i) {
      void* volatile block = tarn_malloc(size);
      tarn_free(block);
    }
  };
  for (const bool by_another : {false, true}) {
    const scope_entry in = s.enter();
    work(100);
    const std::uint64_t before = profiled_bytes();
    const auto begin = [] { ASSERT_EQ(tarn_profile_start(4096), 0); };
    by_another ? std::thread(begin).join() : begin();
    work(count);
    tarn_profile_stop();
    // About 6,250 samples: a standard deviation of 1.3 %.
    const double ratio = static_cast<double>(profiled_bytes() - before) / (double{size} * count);
    EXPECT_NEAR(ratio, 1, 0.07) << by_another;
  }
  EXPECT_EQ(s.end().blocks, 0U);
}

TEST(scope_bin, allocations_are_profiled_while_guarded_ones_are_refused) {
  const testing_support::restore_options restore;
  tarn_set_option("guarded", "1,1");
  scope s("both");
  ASSERT_EQ(tarn_profile_start(1), 0);
  const std::uint64_t before = profiled_bytes();
  constexpr int count = 1000;
  // A new thread, whose first window is one of the option's present length.
  std::thread([&s] {
    const scope_entry in = s.enter();
    for (int i = 0; i < count; ++i) tarn_free(tarn_malloc(64));
  }).join();
  tarn_profile_stop();
  EXPECT_GE(profiled_bytes() - before, std::uint64_t{64} * (count - 50));
}

TEST(scope_bin, counted_allocations_are_not_profiled) {
  scope s("counted");
  ASSERT_EQ(tarn_profile_start(64), 0);
  {
    const scope_entry in = s.enter();
    tarn_allocation_count count;
    tarn_count_begin(&count);
    for (int i = 0; i < 100; ++i) tarn_free(tarn_malloc(64));
    tarn_count_end(&count);
    EXPECT_EQ(count.allocations, 100U);
    tarn_free(tarn_malloc(64));
  }
  tarn_profile_stop();
  EXPECT_EQ(s.end().blocks, 0U);
}

TEST(scope_bin, finds_a_broken_invariant) {
  scope s("bin");
  const scope_entry in = s.enter();
  tarn_free(tarn_malloc(64));
  scope_bin& bin = *current_scope_bin;
  const unsigned c = class_of_size(64);
  const std::uint8_t most = scope_bin_test_access::most(bin, c);
  scope_bin_test_access::most(bin, c) = 0;
  EXPECT_BROKEN(bin.validate(), "scope_bin", "(most_[c] != 0) == (loaded_[c] != no_magazine())", &bin);
  scope_bin_test_access::most(bin, c) = most;
}

}  // namespace
}  // namespace tarn
