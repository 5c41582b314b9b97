// SPDX-License-Identifier: MIT
// Arithmetic on sizes and pages: powers of two, rounding, pages for bytes.
#include "base/units.hpp"

#include <gtest/gtest.h>

namespace tarn {
namespace {

TEST(units, powers_of_two) {
  EXPECT_FALSE(is_power_of_two(0));
  for (unsigned shift = 0; shift < 64; ++shift) {
    const std::size_t n = std::size_t{1} << shift;
    EXPECT_TRUE(is_power_of_two(n)) << n;
    if (n > 2) {
      EXPECT_FALSE(is_power_of_two(n - 1)) << n;
      EXPECT_FALSE(is_power_of_two(n + 1)) << n;
    }
  }
}

TEST(units, rounding_reaches_the_nearest_multiple) {
  for (std::size_t alignment = 1; alignment <= 64 * kib; alignment *= 2) {
    for (std::size_t n = 0; n < 3 * alignment; n += alignment / 8 + 1) {
      EXPECT_EQ(align_down(n, alignment), n / alignment * alignment);
      EXPECT_EQ(align_up(n, alignment), (n + alignment - 1) / alignment * alignment);
    }
  }
}

TEST(units, pages_for_bytes) {
  EXPECT_EQ(pages_for(0), 0U);
  EXPECT_EQ(pages_for(1), 1U);
  EXPECT_EQ(pages_for(page_size), 1U);
  EXPECT_EQ(pages_for(page_size + 1), 2U);
  EXPECT_EQ(pages_for(huge_page_size), pages_per_huge_page);
}

}  // namespace
}  // namespace tarn
