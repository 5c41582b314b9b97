// SPDX-License-Identifier: MIT
// Patterns of LeakSanitizer's suppression files.
#include "cli/recording/leak_suppressions.hpp"

#include <gtest/gtest.h>

namespace tarn::cli {
namespace {

TEST(leak_suppressions, patterns_match_as_leak_sanitizers_do) {
  EXPECT_TRUE(pattern_matches("parse", "json::parse(char*)"));
  EXPECT_FALSE(pattern_matches("^parse", "json::parse(char*)"));
  EXPECT_TRUE(pattern_matches("^json*char", "json::parse(char*)"));
  EXPECT_TRUE(pattern_matches("*", ""));
  EXPECT_TRUE(pattern_matches("parse*)$", "json::parse(char*)"));
  EXPECT_FALSE(pattern_matches("parse$", "json::parse(char*)"));
  EXPECT_TRUE(pattern_matches("a*b*c$", "xxaxbxbc"));
  EXPECT_FALSE(pattern_matches("a*b*c", "xxaxcxb"));
  EXPECT_TRUE(pattern_matches("libfoo.so", "/usr/lib/libfoo.so.1"));
  EXPECT_FALSE(pattern_matches("x", ""));
}

}  // namespace
}  // namespace tarn::cli
