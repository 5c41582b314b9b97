// SPDX-License-Identifier: MIT
// text_writer: numbers as printf writes them, and output that does not fit.
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <random>
#include <string>

namespace tarn {
namespace {

std::string text_of(const text_writer& w) { return {w.data(), w.stored()}; }

TEST(text, numbers_are_those_of_printf) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t value = random() >> (random() % 64);
    text_buffer<64> out;
    out.number(value).put(' ').signed_number(static_cast<std::int64_t>(~value)).put(' ');
    out.pointer(reinterpret_cast<void*>(value));
    char expected[96];
    std::snprintf(expected, sizeof expected, "%llu %lld 0x%llx", static_cast<unsigned long long>(value),
                  static_cast<long long>(~value), static_cast<unsigned long long>(value));
    ASSERT_EQ(text_of(out), expected);
  }
}

TEST(text, extreme_numbers) {
  text_buffer<128> out;
  out.number(0).put(' ').number(std::numeric_limits<std::uint64_t>::max()).put(' ');
  out.signed_number(std::numeric_limits<std::int64_t>::min()).put(' ').pointer(nullptr);
  EXPECT_EQ(text_of(out), "0 18446744073709551615 -9223372036854775808 0x0");
}

TEST(text, what_does_not_fit_is_cut_and_counted) {
  char room[8] = "#######";
  text_writer out(room, 4);
  out.put("abcdef").number(12);
  EXPECT_EQ(text_of(out), "abcd");
  EXPECT_EQ(out.size(), 8U);
  EXPECT_EQ(out.stored(), 4U);
  EXPECT_STREQ(room, "abcd###") << "written past its capacity";
}

TEST(text, no_room_at_all) {
  text_writer out(nullptr, 0);
  out.put("abc").put('d').number(5);
  EXPECT_EQ(out.size(), 5U);
  EXPECT_EQ(out.stored(), 0U);
}

}  // namespace
}  // namespace tarn
