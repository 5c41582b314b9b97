// SPDX-License-Identifier: MIT
#include "pages/heap_ranges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

TEST(heap_ranges, are_those_of_all_pages) {
  heap_ranges ranges;
  std::mt19937 random(5);
  constexpr std::size_t pages = 300;
  bool has[pages] = {};
  std::size_t count = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t first = random() % pages;
    std::size_t end = first;
    const bool adds = !has[first];
    const std::size_t longest = random() % 9 + 1;
    for (; end < pages && end < first + longest && has[end] != adds; ++end) has[end] = adds;
    // What is removed may lie in ranges that touch: they are one.
    const std::size_t version = ranges.version();
    adds ? ranges.add_locked(page_size * (first + 1), page_size * (end + 1))
         : ranges.remove_locked(page_size * (first + 1), page_size * (end + 1));
    EXPECT_NE(ranges.version(), version);
    count = static_cast<std::size_t>(std::count(has, has + pages, true));
    ranges.validate_locked(count, count);
    bool found[pages] = {};
    for (const os::address_range& one : ranges.all())
      for (std::uintptr_t at = one.start; at < one.end; at += page_size) found[at / page_size - 1] = true;
    ASSERT_TRUE(std::equal(has, has + pages, found)) << step;
  }
}

TEST(heap_ranges, too_many_are_lost_for_good) {
  heap_ranges ranges;
  for (std::size_t i = 1; i <= heap_ranges::most; ++i)
    ranges.add_locked(i * 2 * page_size, (i * 2 + 1) * page_size);
  EXPECT_FALSE(ranges.are_lost());
  EXPECT_EQ(ranges.all().size(), heap_ranges::most);
  ranges.add_locked(page_size << 20, page_size << 21);
  EXPECT_TRUE(ranges.are_lost());
  EXPECT_TRUE(ranges.all().empty());
  ranges.remove_locked(2 * page_size, 3 * page_size);
  ranges.add_locked(2 * page_size, 3 * page_size);
  EXPECT_TRUE(ranges.all().empty());
  ranges.validate_locked(5, 5);
}

TEST(heap_ranges, finds_a_broken_invariant) {
  heap_ranges ranges;
  ranges.add_locked(page_size, 2 * page_size);
  EXPECT_BROKEN(ranges.validate_locked(2, 2), "heap_ranges", "is_lost_ || (sum >= least && sum <= reserved)",
                &ranges);
}

}  // namespace
}  // namespace tarn
