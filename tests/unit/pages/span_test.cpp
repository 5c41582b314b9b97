// SPDX-License-Identifier: MIT
// span.
#include "pages/span.hpp"

#include <gtest/gtest.h>

namespace tarn {
namespace {

TEST(span, contains_its_bytes_and_no_others) {
  span s;
  s.start = 10 * page_size;
  s.pages = 2;
  EXPECT_EQ(s.bytes(), 2 * page_size);
  EXPECT_FALSE(s.contains(10 * page_size - 1));
  EXPECT_TRUE(s.contains(10 * page_size));
  EXPECT_TRUE(s.contains(12 * page_size - 1));
  EXPECT_FALSE(s.contains(12 * page_size));
  s.pages = 0;
  EXPECT_FALSE(s.contains(10 * page_size)) << "a structure that is no span contains an address";
}

}  // namespace
}  // namespace tarn
