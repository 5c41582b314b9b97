// SPDX-License-Identifier: MIT
#include "engine/slow_calls.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "engine/restore.hpp"
#include "tarn/malloc.h"

namespace tarn::slow_calls {
namespace {

struct durations_of {
  std::vector<std::string> longest;
  std::vector<std::uint64_t> up_to[kinds];  // calls that took no longer

  std::uint64_t all(kind what) const {
    const auto& counts = up_to[static_cast<unsigned>(what)];
    return counts.empty() ? 0 : counts.back();
  }
  // Calls of at most so many seconds.
  std::uint64_t within(kind what, double seconds) const {
    std::uint64_t calls = 0;
    for (std::size_t i = 0; i < longest.size(); ++i)
      if (std::strtod(longest[i].c_str(), nullptr) <= seconds) calls = up_to[static_cast<unsigned>(what)][i];
    return calls;
  }
};

durations_of now() {
  durations_of out;
  metrics.visit({[](void* to, const char* name, const std::uint64_t* values) {
                   auto& all = *static_cast<durations_of*>(to);
                   all.longest.emplace_back(name);
                   for (unsigned k = 0; k < kinds; ++k) all.up_to[k].push_back(values[k]);
                 },
                 &out});
  return out;
}

TEST(slow_calls, a_call_counts_for_each_duration_that_it_did_not_exceed) {
  const durations_of before = now();
  add(kind::large_free, os::now_ns() - 3'000'000);
  const durations_of after = now();
  ASSERT_FALSE(after.longest.empty());
  EXPECT_EQ(after.longest.front(), "0.000000256");
  EXPECT_EQ(after.longest.back(), "+Inf");
  EXPECT_STREQ(metrics.label, "le");
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

}  // namespace
}  // namespace tarn::slow_calls
