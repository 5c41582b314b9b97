// SPDX-License-Identifier: MIT
// Which characters printable() escapes.
#include "profiler/format/printable.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tarn::profiler {
namespace {

TEST(printable, leaves_plain_text_alone) {
  for (const char* text : {"", "std::vector<int, std::allocator<int> >::push_back(int&&)", "a\\b \"c\"",
                           "Größe µs 漢字 \U0001f600"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(printable, escapes_control_characters) {
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("\x7f\xc2\x9b"
                      "31m"),
            "\\x7f\\x9b31m");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
}

TEST(printable, escapes_what_changes_direction_or_line) {
  EXPECT_EQ(printable("\u202e\u2028\u2066\ufeff"), "\\u{202e}\\u{2028}\\u{2066}\\u{feff}");
  EXPECT_EQ(printable("\u061c\u200e\u200f\u2069"), "\\u{061c}\\u{200e}\\u{200f}\\u{2069}");
}

TEST(printable, escapes_bytes_that_are_not_utf_8) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe2\x80"
                      "a"),
            "\\xe2\\x80a");
  // Overlong forms, and lead bytes that do not occur in UTF-8.
  EXPECT_EQ(printable("\xe0\x80\xaf\xf0\x80\x80\xaf"), "\\xe0\\x80\\xaf\\xf0\\x80\\x80\\xaf");
  EXPECT_EQ(printable("\xf8\x90\x80\x80"), "\\xf8\\x90\\x80\\x80");
}

TEST(printable, does_not_read_past_the_end) {
  EXPECT_EQ(printable(std::string_view("\u00e9", 1)), "\\xc3");
  EXPECT_EQ(printable(std::string_view("a\u6f22", 3)), "a\\xe6\\xbc");
}

TEST(printable, is_idempotent) {
  std::string all;
  for (int unit = 0; unit < 256; ++unit) all += static_cast<char>(unit);
  const std::string once = printable(all);
  EXPECT_EQ(printable(once), once);
}

TEST(printable, markup_has_no_elements_and_no_control_characters) {
  EXPECT_EQ(escape_markup("<a b=\"c\">&\x1b\xff\u202e"), "&lt;a b=&quot;c&quot;&gt;&amp;\\x1b\\xff\\u{202e}");
}

TEST(printable, json_keeps_its_values) {
  EXPECT_EQ(escape_json("{\n  \"a\\u001b\": \"\u00e9\"\n}"), "{\n  \"a\\u001b\": \"\u00e9\"\n}");
  EXPECT_EQ(escape_json("[\"\u009b\x7f\u202e\u2028\ufeff\"]"), "[\"\\u009b\\u007f\\u202e\\u2028\\ufeff\"]");
}

}  // namespace
}  // namespace tarn::profiler
