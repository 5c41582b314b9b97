// SPDX-License-Identifier: MIT
// Parsing of sizes such as 8M or 64KiB.
#include "cli/launch/accepted_values.hpp"

#include <gtest/gtest.h>

#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

std::string size_refusal(const char* word) {
  return testing_support::refusal_of<cli_error>([word] { parse_byte_size(word); });
}

TEST(byte_size, as_people_write_them) {
  EXPECT_EQ(parse_byte_size("8388608"), 8388608U);
  EXPECT_EQ(parse_byte_size("8388608b"), 8388608U);
  EXPECT_EQ(parse_byte_size("8M"), 8388608U);
  EXPECT_EQ(parse_byte_size("8m"), 8388608U);
  EXPECT_EQ(parse_byte_size("8MiB"), 8388608U);
  EXPECT_EQ(parse_byte_size("8mib"), 8388608U);
  EXPECT_EQ(parse_byte_size("64K"), 65536U);
  EXPECT_EQ(parse_byte_size("2G"), std::uint64_t{1} << 31);
  EXPECT_EQ(parse_byte_size("0"), 0U);
}

TEST(byte_size, nonsense_is_refused_with_what_is_accepted) {
  for (const char* word : {"", "M", "8X", "8MB", "8 M", "-8M", "+8", "1.5G", "8M8", "0x10", " 8", "8MiBs"}) {
    const std::string refusal = size_refusal(word);
    EXPECT_TRUE(refusal.starts_with("2 ")) << word;
    EXPECT_NE(refusal.find("not a size | "), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("8MiB"), std::string::npos) << refusal;
  }
}

TEST(byte_size, sizes_of_2_to_the_63_and_more_are_refused) {
  for (const char* word :
       {"9223372036854775808", "99999999999999999999999", "8589934592G", "9007199254740992M"}) {
    EXPECT_NE(size_refusal(word).find("too large"), std::string::npos) << word;
  }
  EXPECT_EQ(parse_byte_size("9223372036854775807"), std::uint64_t{9223372036854775807U});
}

}  // namespace
}  // namespace tarn::cli
