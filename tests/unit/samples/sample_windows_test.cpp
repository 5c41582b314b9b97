// SPDX-License-Identifier: MIT
// sample_windows: the length of windows and the places in them. The windows of a thread's cache: thread_cache_test.
#include "samples/sample_windows.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tarn {
namespace {

TEST(sample_windows, have_the_length_that_was_set_last) {
  sample_windows windows;
  EXPECT_EQ(windows.length(), 1 << 16);
  windows.set_length(7);
  EXPECT_EQ(windows.length(), 7);
  windows.set_length(0);
  EXPECT_EQ(windows.length(), 0);
}

TEST(sample_windows, every_place_of_a_window_is_chosen_about_as_often) {
  sample_windows windows;
  constexpr std::int32_t length = 8;
  constexpr int draws = 8000;
  int chosen[length] = {};
  for (int i = 0; i < draws; ++i) {
    const std::int32_t place = windows.place(length);
    ASSERT_TRUE(0 <= place && place < length) << place;
    ++chosen[place];
  }
  // Six standard deviations of a binomial distribution.
  const auto [least, most] = std::minmax_element(chosen, chosen + length);
  EXPECT_GE(*least, draws / length - 180);
  EXPECT_LE(*most, draws / length + 180);
}

TEST(sample_windows, the_shortest_and_the_longest_window) {
  sample_windows windows;
  bool in_upper_half = false;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(windows.place(1), 0);
    const std::int32_t place = windows.place(sample_windows::longest);
    ASSERT_TRUE(0 <= place && place < sample_windows::longest) << place;
    in_upper_half = in_upper_half || place >= sample_windows::longest / 2;
  }
  EXPECT_TRUE(in_upper_half);
}

}  // namespace
}  // namespace tarn
