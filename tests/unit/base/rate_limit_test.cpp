// SPDX-License-Identifier: MIT
// rate_limit: bursts, the mean rate, and changes of it.
#include "base/rate_limit.hpp"

#include <gtest/gtest.h>

namespace tarn {
namespace {

std::int64_t allowed(rate_limit& limit, std::int64_t from_ms, std::int64_t to_ms, int tries_per_ms) {
  std::int64_t count = 0;
  for (std::int64_t t = from_ms; t < to_ms; ++t) {
    for (int i = 0; i < tries_per_ms; ++i) count += limit.allows(t) ? 1 : 0;
  }
  return count;
}

TEST(rate_limit, a_burst_then_the_rate) {
  rate_limit limit(10);
  EXPECT_EQ(allowed(limit, 1000, 1001, 100), rate_limit::burst);
  EXPECT_EQ(allowed(limit, 1001, 1100, 3), 0);
  EXPECT_EQ(allowed(limit, 1100, 11100, 3), 100);
}

TEST(rate_limit, any_number_per_second_is_kept) {
  for (const std::int64_t per_second : {1, 3, 7, 16, 300, 400, 501, 600, 999, 1000}) {
    rate_limit limit(per_second);
    const std::int64_t count = allowed(limit, 5000, 15000, 3);
    EXPECT_LE(count, rate_limit::burst + 10 * per_second) << per_second;
    EXPECT_GE(count, 10 * per_second * 99 / 100) << per_second;
  }
}

TEST(rate_limit, a_pause_earns_no_more_than_a_burst) {
  rate_limit limit(100);
  EXPECT_EQ(allowed(limit, 5, 6, 50), rate_limit::burst);
  EXPECT_EQ(allowed(limit, 1000000, 1000001, 50), rate_limit::burst);
}

TEST(rate_limit, zero_allows_all_and_may_be_set_at_any_time) {
  rate_limit limit(1);
  EXPECT_EQ(allowed(limit, 0, 1, 50), rate_limit::burst);
  limit.set_per_second(0);
  EXPECT_EQ(allowed(limit, 1, 2, 50), 50);
  limit.set_per_second(rate_limit::most_per_second);
  EXPECT_LE(allowed(limit, 2, 1002, 5), 1000 + rate_limit::burst);
}

}  // namespace
}  // namespace tarn
