// SPDX-License-Identifier: MIT
// Compiled with TARN_CHECKED_POOLS=1: a recycler drops one returned object in four at random.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tarn/recycler.hpp"

static_assert(TARN_RECYCLER_DROPS == 1);

namespace {

TEST(dropping_recycler, drops_one_object_in_four) {
  tarn::recycler<std::string> strings({.cycle = std::chrono::milliseconds(0)});
  constexpr int uses = 4000;
  for (int i = 0; i < uses; ++i) strings.get()->assign(100, 'x');
  const tarn::recycler_stats stats = strings.stats();
  EXPECT_NEAR(static_cast<double>(stats.at_random), uses / 4.0, uses / 20.0);
  EXPECT_EQ(stats.misses, 1 + stats.at_random - (stats.objects == 0 ? 1 : 0));
}

}  // namespace
