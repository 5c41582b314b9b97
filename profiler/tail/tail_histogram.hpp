// SPDX-License-Identifier: MIT
// tail_histogram: counts of durations by size, 32 buckets for each power of two, so that a bucket is at most 1/32 of its
// durations wide (as in HdrHistogram). Pure functions; any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tarn::profiler::tail {

inline constexpr unsigned step_bits = 5;
// Longer durations are in the last bucket: above an hour at 4 GHz.
inline constexpr unsigned duration_bits = 44;
inline constexpr std::size_t bucket_count = (std::size_t{duration_bits} - step_bits + 1) << step_bits;

constexpr std::size_t bucket_of(std::uint64_t duration) {
  constexpr std::uint64_t steps = std::uint64_t{1} << step_bits;
  if (duration < steps) return static_cast<std::size_t>(duration);
  if (duration >> duration_bits != 0) return bucket_count - 1;
  const unsigned shift = static_cast<unsigned>(std::bit_width(duration)) - 1 - step_bits;
  return (std::size_t{shift} + 1) << step_bits | static_cast<std::size_t>((duration >> shift) & (steps - 1));
}

// The middle of the durations of a bucket.
constexpr double middle_of(std::size_t bucket) {
  constexpr std::size_t steps = std::size_t{1} << step_bits;
  if (bucket < steps) return static_cast<double>(bucket);
  const std::size_t shift = (bucket >> step_bits) - 1;
  const std::uint64_t lowest = std::uint64_t{steps | (bucket & (steps - 1))} << shift;
  return static_cast<double>(lowest) + static_cast<double>((std::uint64_t{1} << shift) - 1) / 2;
}

}  // namespace tarn::profiler::tail
