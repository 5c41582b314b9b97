// SPDX-License-Identifier: MIT
// sample_thinning: unbiased at any rate, bounded, and without an effect at low rates.
#include "thread/sample_thinning.hpp"

#include <gtest/gtest.h>

namespace tarn {
namespace {

struct outcome {
  std::uint64_t followed = 0;
  std::uint64_t stands_for = 0;
};

// `per_ms` samples are due in each millisecond.
outcome run(sample_thinning& thinning, std::int64_t& now_ms, std::int64_t for_ms, std::uint64_t per_ms) {
  outcome out;
  for (const std::int64_t end = now_ms + for_ms; now_ms < end; ++now_ms) {
    for (std::uint64_t i = 0; i < per_ms; ++i) {
      const unsigned level = thinning.decide(now_ms);
      if (level == sample_thinning::refused) continue;
      ++out.followed;
      out.stands_for += std::uint64_t{1} << level;
    }
  }
  return out;
}

TEST(sample_thinning, off_follows_all) {
  sample_thinning thinning;
  std::int64_t now = 1;
  EXPECT_EQ(run(thinning, now, 1000, 500).followed, 500'000U);
}

TEST(sample_thinning, few_samples_are_all_followed) {
  sample_thinning thinning;
  thinning.set(true);
  std::int64_t now = 1'000'000;
  const outcome out = run(thinning, now, 5000, 1);
  EXPECT_EQ(out.followed, 5000U);
  EXPECT_EQ(out.stands_for, 5000U);
}

TEST(sample_thinning, many_are_bounded_and_stand_for_all) {
  for (const std::uint64_t per_ms : {3U, 13U, 100U, 1000U}) {
    sample_thinning thinning;
    thinning.set(true);
    std::int64_t now = 1;
    constexpr std::int64_t seconds = 20;
    const outcome out = run(thinning, now, seconds * 1000, per_ms);
    const double all = static_cast<double>(per_ms) * seconds * 1000;
    EXPECT_LE(out.followed, 2 * sample_thinning::wanted_per_second * seconds) << per_ms;
    EXPECT_GE(out.followed, sample_thinning::wanted_per_second * seconds / 3) << per_ms;
    // The relative standard deviation is at most 1 / sqrt(7,000) = 1.2 %.
    EXPECT_NEAR(static_cast<double>(out.stands_for) / all, 1, 0.06) << per_ms;
  }
}

TEST(sample_thinning, rates_that_change_leave_no_bias_and_the_level_falls_again) {
  sample_thinning thinning;
  thinning.set(true);
  std::int64_t now = 1;
  std::uint64_t due = 0;
  std::uint64_t stands_for = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t per_ms = i % 3 == 0 ? 200 : 4;
    const std::int64_t for_ms = 50 + i % 7 * 40;
    due += per_ms * static_cast<std::uint64_t>(for_ms);
    stands_for += run(thinning, now, for_ms, per_ms).stands_for;
  }
  EXPECT_NEAR(static_cast<double>(stands_for) / static_cast<double>(due), 1, 0.06);
  run(thinning, now, 1000, 1);
  EXPECT_EQ(run(thinning, now, 1000, 1).followed, 1000U);
}

}  // namespace
}  // namespace tarn
