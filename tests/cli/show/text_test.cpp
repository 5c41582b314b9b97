// SPDX-License-Identifier: MIT
// Formatting of quantities, columns and exit statuses; the nearest word; colour.
#include "cli/show/text.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace tarn::cli {
namespace {

TEST(text, quantities) {
  EXPECT_EQ(show_seconds(1.0456).text, "1.046 s");
  EXPECT_EQ(show_seconds(0.0123).text, "12.30 ms");
  EXPECT_EQ(show_seconds(0.00005).text, "50 us");
  EXPECT_EQ(show_seconds(4000).text, "4000 s");
  EXPECT_EQ(show_bytes(512).text, "512 B");
  EXPECT_EQ(show_bytes(1536 * 1024.0).text, "1.500 MiB");
  EXPECT_EQ(show_bytes(3.0 * (1 << 30)).text, "3.000 GiB");
  EXPECT_EQ(show_count(9999).text, "9999");
  EXPECT_EQ(show_count(12345).text, "12.35k");
  EXPECT_EQ(show_count(2.5e6).text, "2.500M");
}

TEST(text, short_times) {
  EXPECT_EQ(show_short_time(0).text, "0 ns");
  EXPECT_EQ(show_short_time(42e-9).text, "42 ns");
  EXPECT_EQ(show_short_time(12.34e-6).text, "12.3 us");
  EXPECT_EQ(show_short_time(0.01684).text, "16.8 ms");
  EXPECT_EQ(show_short_time(0.4567).text, "457 ms");
  EXPECT_EQ(show_short_time(1.0456).text, "1.05 s");
  EXPECT_EQ(show_short_time(999.96e-6).text, "1.00 ms");
  EXPECT_EQ(show_short_time(9.9999e-3).text, "10.0 ms");
  EXPECT_EQ(show_short_time(0.3e-9).text, "0 ns");
  EXPECT_EQ(show_short_time(-12.34e-6).text, "-12.3 us");
}

TEST(text, the_value_is_the_rounded_number_that_is_shown) {
  EXPECT_DOUBLE_EQ(show_seconds(1.0456).value, 1.046);
  EXPECT_DOUBLE_EQ(show_seconds(0.00123456).value, 0.001235);
  EXPECT_DOUBLE_EQ(show_bytes(1.23456 * 1048576).value, 1.235 * 1048576);
  EXPECT_DOUBLE_EQ(show_count(12345).value, 12350);
  EXPECT_EQ(show_count(0.4).value, 0);
  EXPECT_EQ(show_count(0).text, "0");
}

TEST(text, wait_statuses) {
  EXPECT_EQ(format_exit(3 << 8), "exit status 3");
  EXPECT_EQ(format_exit(11), "killed by signal 11 (Segmentation fault)");
}

TEST(text, columns_count_characters_not_bytes) {
  EXPECT_EQ(display_width("\u00b11"), 2U);
  EXPECT_EQ(pad_left("\u00b11", 4), "  \u00b11");
  EXPECT_EQ(pad_right("ab", 4), "ab  ");
  EXPECT_EQ(pad_right("abcdef", 4), "abcdef");
}

TEST(text, edit_distance_counts_a_swap_once) {
  EXPECT_EQ(edit_distance("compare", "compare"), 0U);
  EXPECT_EQ(edit_distance("comapre", "compare"), 1U);
  EXPECT_EQ(edit_distance("", "run"), 3U);
  EXPECT_EQ(edit_distance("rn", "run"), 1U);
}

TEST(text, wraps_at_blanks) {
  EXPECT_EQ(wrap("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrap("a-word-that-is-too-long b", 7), "a-word-that-is-too-long\nb");
  EXPECT_EQ(wrap("", 7), "");
}

TEST(text, nearest_word) {
  const std::vector<std::string> words = {"run", "compare", "options"};
  EXPECT_EQ(nearest_word("comapre", words), "compare");
  EXPECT_EQ(nearest_word("opt", words), "options");
  EXPECT_EQ(nearest_word("rum", words), "run");
  EXPECT_EQ(nearest_word("zzzzzz", words), "");
}

TEST(text, no_colour_where_it_is_not_wanted) {
  EXPECT_EQ(paint("x", style::good, false), "x");
  EXPECT_EQ(paint("x", style::good, true), "\033[32mx\033[0m");
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(wants_colour(1));
  unsetenv("NO_COLOR");
}

}  // namespace
}  // namespace tarn::cli
