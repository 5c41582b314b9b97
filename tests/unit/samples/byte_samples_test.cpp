// SPDX-License-Identifier: MIT
// byte_samples: its functions against libm's, the distribution of distances, and the estimates by weights.
#include "samples/byte_samples.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tarn {
namespace {

TEST(byte_samples, the_probability_is_that_of_libm) {
  for (double x = 1e-9; x < 100; x *= 1.07)
    EXPECT_NEAR(byte_samples::probability(x) / -std::expm1(-x), 1, 1e-9) << x;
}

TEST(byte_samples, the_epoch_changes_with_the_mean) {
  byte_samples samples;
  EXPECT_EQ(samples.mean(), 0U);
  const std::uint32_t before = samples.epoch();
  samples.set_mean(100);
  EXPECT_EQ(samples.mean(), 100U);
  EXPECT_NE(samples.epoch(), before);
}

// For a size: the share of sampled blocks is p, and the weights add up to the number of blocks.
TEST(byte_samples, weights_add_up_to_the_number_of_blocks) {
  byte_samples samples;
  constexpr std::size_t mean = 4096;
  for (const std::size_t size : {8U, 64U, 1000U, 4096U, 10000U, 1000000U}) {
    constexpr int wanted = 40000;
    double blocks = 0;
    for (int i = 0; i < wanted; ++i) blocks += 1 + samples.blocks_until(mean, size);
    const double estimate =
        wanted * static_cast<double>(byte_samples::weight(mean, size)) / (1U << byte_samples::weight_shift);
    // Six standard deviations of a geometric sum.
    EXPECT_NEAR(estimate / blocks, 1, 6 / std::sqrt(wanted)) << size;
  }
}

TEST(byte_samples, the_same_by_bytes_for_blocks_of_different_sizes) {
  byte_samples samples;
  samples.set_mean(5000);
  byte_countdown countdown;
  double truth = 0;
  double estimate = 0;
  for (std::size_t i = 0; i < 400000; ++i) {
    const std::size_t size = 16 + i * 7919 % 3000;
    truth += static_cast<double>(size);
    if (countdown.is_due(samples, size))
      estimate += static_cast<double>(byte_samples::weighted(byte_samples::weight(5000, size), size));
  }
  EXPECT_NEAR(estimate / truth, 1, 0.02);
}

TEST(byte_samples, without_a_mean_nothing_is_due) {
  byte_samples samples;
  byte_countdown countdown;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(countdown.is_due(samples, gib));
}

TEST(byte_samples, long_distances_are_cut) {
  byte_samples samples;
  for (int i = 0; i < 1000; ++i) {
    const std::int32_t blocks = samples.blocks_until(byte_samples::largest_mean, 1);
    EXPECT_TRUE(0 <= blocks && blocks <= byte_samples::longest);
  }
}

}  // namespace
}  // namespace tarn
