// SPDX-License-Identifier: MIT
// Columns and exit statuses; the nearest word; colour.
#include "cli/show/text.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace tarn::cli {
namespace {

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

TEST(text, a_text_is_cut_between_characters) {
  const std::string umlauts = "\u00e4\u00f6\u00fc\u00c4\u00d6\u00dc";
  EXPECT_EQ(cut_to_width(umlauts, 6), umlauts);
  EXPECT_EQ(cut_to_width(umlauts, 0), umlauts);
  EXPECT_EQ(cut_to_width(umlauts, 5), "\u00e4\u00f6...");
  EXPECT_EQ(cut_to_width(umlauts, 3), "\u00e4\u00f6\u00fc");
  EXPECT_EQ(cut_in_middle(umlauts, 5), "\u00e4\u00f6\u2026\u00d6\u00dc");
  EXPECT_EQ(cut_in_middle(umlauts, 6), umlauts);
  EXPECT_EQ(cut_in_middle("abcdef", 2), "ab");
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

TEST(text, messages_break_at_blanks_and_long_words_stay_whole) {
  EXPECT_EQ(fold("tarn: one two three\n", 14), "tarn: one two\n      three\n");
  EXPECT_EQ(fold("      one two three", 14), "      one two\n       three");
  EXPECT_EQ(fold("tarn: /a/path/that/is/too/long does not exist", 16),
            "tarn:\n      /a/path/that/is/too/long\n      does not\n      exist");
  EXPECT_EQ(fold("a  b\nc  d e\n", 5), "a  b\nc  d\n   e\n");
  EXPECT_EQ(fold("\u00e9\u00e9 \u00e9\u00e9", 5), "\u00e9\u00e9 \u00e9\u00e9");
  EXPECT_EQ(fold("one two", 0), "one two");
  EXPECT_EQ(fold("", 5), "");
  EXPECT_EQ(fold("   ", 1), "   ");
}

TEST(text, a_line_with_columns_goes_on_below_the_last) {
  EXPECT_EQ(fold("ok  name  one two three\n", 18), "ok  name  one two\n          three\n");
  // Not below a column that leaves no room.
  EXPECT_EQ(fold("ok  a-name-of-letters  one two", 24), "ok  a-name-of-letters\n    one two");
  EXPECT_EQ(fold("\033[32mok\033[0m  one two", 10), "\033[32mok\033[0m  one\n    two");
  EXPECT_EQ(display_width("\033[1mab\033[0m"), 2U);
}

TEST(text, a_figure_keeps_its_unit) {
  EXPECT_EQ(fold("user 172.5 % of it", 11), "user\n  172.5 %\n  of it");
  EXPECT_EQ(fold("up to 9 MiB/s here", 9), "up to\n  9 MiB/s\n  here");
  EXPECT_EQ(fold("of 3 sites", 5), "of 3\n  sites");
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
