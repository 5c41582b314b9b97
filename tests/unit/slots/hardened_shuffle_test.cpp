// SPDX-License-Identifier: MIT
// hardened_shuffle: riffle() loses nothing and keeps each quarter's order; numbers differ between threads.
#include "slots/hardened_shuffle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "slots/size_class.hpp"

namespace tarn {
namespace {

// The numbers 1 to count, riffled.
std::vector<std::uintptr_t> riffled(std::size_t count) {
  std::vector<void*> slots(count);
  for (std::size_t i = 0; i < count; ++i) slots[i] = reinterpret_cast<void*>(i + 1);
  riffle(slots.data(), count);
  std::vector<std::uintptr_t> out(count);
  std::transform(slots.begin(), slots.end(), out.begin(),
                 [](void* slot) { return reinterpret_cast<std::uintptr_t>(slot); });
  return out;
}

TEST(hardened_shuffle, a_riffle_merges_four_runs_in_their_order) {
  for (std::size_t count = 0; count <= largest_magazine; ++count) {
    const std::vector<std::uintptr_t> all = riffled(count);
    EXPECT_EQ(std::set<std::uintptr_t>(all.begin(), all.end()).size(), count);
    for (std::size_t run = 0; run < 4; ++run) {
      const std::uintptr_t first = count * run / 4 + 1;
      const std::uintptr_t end = count * (run + 1) / 4 + 1;
      std::vector<std::uintptr_t> of_run;
      std::copy_if(all.begin(), all.end(), std::back_inserter(of_run),
                   [=](std::uintptr_t n) { return first <= n && n < end; });
      EXPECT_EQ(of_run.size(), end - first) << count;
      EXPECT_TRUE(std::is_sorted(of_run.begin(), of_run.end())) << count;
    }
  }
}

TEST(hardened_shuffle, two_riffles_differ) {
  EXPECT_NE(riffled(largest_magazine), riffled(largest_magazine));
}

TEST(hardened_shuffle, numbers_have_48_bits_and_are_each_threads_own) {
  std::set<std::uint64_t> numbers;
  std::uint64_t bits = 0;
  const auto draw = [&] {
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t number = random_number();
      numbers.insert(number);
      bits |= number;
    }
  };
  draw();
  std::thread(draw).join();
  EXPECT_EQ(bits, (std::uint64_t{1} << 48) - 1);
  EXPECT_EQ(numbers.size(), 2000U);
}

}  // namespace
}  // namespace tarn
