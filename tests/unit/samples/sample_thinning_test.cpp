// SPDX-License-Identifier: MIT
// sample_thinning and byte_samples::follow(): unbiased at any rate and size, bounded, without an effect at low rates.
#include "samples/sample_thinning.hpp"

#include <gtest/gtest.h>

#include "samples/byte_samples.hpp"

namespace tarn {
namespace {

constexpr std::size_t mean = 512 * kib;

struct outcome {
  std::uint64_t followed = 0;
  double stands_for = 0;  // blocks, of which one in as many as weight() says is due
};

// `per_ms` samples of blocks of `size` bytes are due in each millisecond.
outcome run(byte_samples& samples, std::int64_t& now_ms, std::int64_t for_ms, std::uint64_t per_ms,
            std::size_t size = 64) {
  outcome out;
  for (const std::int64_t end = now_ms + for_ms; now_ms < end; ++now_ms) {
    for (std::uint64_t i = 0; i < per_ms; ++i) {
      const std::uint64_t weight = samples.follow(size, now_ms);
      if (weight == 0) continue;
      ++out.followed;
      out.stands_for += static_cast<double>(weight) / static_cast<double>(byte_samples::weight(mean, size));
    }
  }
  return out;
}

struct sample_thinning_test : testing::Test {
  void SetUp() override { samples.set_mean(mean); }
  byte_samples samples;
};

TEST_F(sample_thinning_test, off_follows_all) {
  std::int64_t now = 1;
  EXPECT_EQ(run(samples, now, 1000, 500).followed, 500'000U);
}

TEST_F(sample_thinning_test, few_samples_are_all_followed) {
  samples.thinning().set(true);
  std::int64_t now = 1'000'000;
  const outcome out = run(samples, now, 5000, 1);
  EXPECT_EQ(out.followed, 5000U);
  EXPECT_EQ(out.stands_for, 5000.0);
}

TEST(sample_thinning, many_are_bounded_and_stand_for_all) {
  for (const std::uint64_t per_ms : {3U, 13U, 100U, 1000U}) {
    byte_samples samples;
    samples.set_mean(mean);
    samples.thinning().set(true);
    std::int64_t now = 1;
    constexpr std::int64_t seconds = 20;
    const outcome out = run(samples, now, seconds * 1000, per_ms);
    const double all = static_cast<double>(per_ms) * seconds * 1000;
    EXPECT_LE(out.followed, 2 * sample_thinning::wanted_per_second * seconds) << per_ms;
    EXPECT_GE(out.followed, sample_thinning::wanted_per_second * seconds / 3) << per_ms;
    // The relative standard deviation is at most 1 / sqrt(7,000) = 1.2 %.
    EXPECT_NEAR(out.stands_for / all, 1, 0.06) << per_ms;
  }
}

TEST_F(sample_thinning_test, large_blocks_are_followed_as_with_a_longer_mean) {
  samples.thinning().set(true);
  std::int64_t now = 1;
  const outcome out = run(samples, now, 20'000, 10, 64 * mib);
  EXPECT_GE(out.followed, 190'000U) << "at 16 times the mean, one in 3,000 is left out";
  EXPECT_NEAR(out.stands_for / 200'000, 1, 0.02);
}

TEST_F(sample_thinning_test, the_first_sample_after_a_silence_is_one_of_few) {
  samples.thinning().set(true);
  std::int64_t now = 1;
  run(samples, now, 1000, 1000);
  now += 3'600'000;
  const outcome out = run(samples, now, 1, 1);
  EXPECT_EQ(out.followed, 1U);
  EXPECT_EQ(out.stands_for, 1.0);
}

TEST_F(sample_thinning_test, rates_that_change_leave_no_bias_and_the_level_falls_again) {
  samples.thinning().set(true);
  std::int64_t now = 1;
  std::uint64_t due = 0;
  double stands_for = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t per_ms = i % 3 == 0 ? 200 : 4;
    const std::int64_t for_ms = 50 + i % 7 * 40;
    due += per_ms * static_cast<std::uint64_t>(for_ms);
    stands_for += run(samples, now, for_ms, per_ms).stands_for;
  }
  EXPECT_NEAR(stands_for / static_cast<double>(due), 1, 0.06);
  run(samples, now, 1000, 1);
  EXPECT_EQ(run(samples, now, 1000, 1).followed, 1000U);
}

}  // namespace
}  // namespace tarn
