// SPDX-License-Identifier: MIT
// random and fnv: known values, and the logarithm against libm's.
#include "base/random.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fnv.hpp"

namespace tarn {
namespace {

TEST(random, is_splitmix64) {
  std::uint64_t state = 0;
  EXPECT_EQ(next_random(state), 0xe220a8397b1dcdafU);
}

TEST(random, the_logarithm_is_that_of_libm) {
  for (double u = 0x1p-54; u < 1; u *= 1.0371) EXPECT_NEAR(negative_logarithm(u), -std::log(u), 1e-9) << u;
  EXPECT_NEAR(negative_logarithm(1 - 0x1p-54), 0, 1e-9);
}

TEST(fnv, has_its_known_values) {
  EXPECT_EQ(fnv().sum, 0xcbf29ce484222325U);
  EXPECT_EQ(fnv().add("a").sum, 0xaf63dc4c8601ec8cU);
}

}  // namespace
}  // namespace tarn
