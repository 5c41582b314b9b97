// SPDX-License-Identifier: MIT
// byte_samples: chooses the allocations that the heap profile knows. Every allocated byte is a sample with the same
// probability, so that a block of s bytes is sampled with p = 1 - exp(-s / R), independently of all others, where R is
// the mean distance of two samples in bytes. A sampled block stands for 1 / p blocks of its size: the sum of the weights
// 1 / p over the sampled blocks has the number of all blocks as its expected value, whatever their sizes are
// (Horvitz and Thompson). docs/design/0030 has the errors.
//
// The distance to the next sample is exponential in bytes. For blocks of one size the number of blocks before the next
// sampled one is then floor(distance / s), which is geometric; so a class of a thread's cache counts allocations, not
// bytes, and its fast path counts only what it counts anyway (thread_cache.hpp).
// The distribution has no memory: a distance may be drawn anew at any time without an effect on the estimate. So a
// thread that finds another epoch than its own draws all its distances anew.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "os/sandbox.hpp"
#include "samples/sample_random.hpp"
#include "samples/sample_thinning.hpp"

namespace tarn {

class byte_samples {
 public:
  static constexpr std::size_t default_mean = 512 * kib;
  static constexpr std::size_t largest_mean = gib;
  // Of weights: 1 / 4096 of a block.
  static constexpr unsigned weight_shift = 12;
  // Longer distances are cut: 1 in 3,000 of those at largest_mean and the smallest size.
  static constexpr std::int32_t longest = 1 << 30;

  constexpr byte_samples() = default;

  // R; 0: nothing is sampled.
  [[nodiscard]] std::size_t mean() const { return mean_.load(std::memory_order_relaxed); }
  [[nodiscard]] constexpr const std::atomic<std::size_t>* mean_place() const { return &mean_; }
  // Changes whenever mean() does.
  [[nodiscard]] std::uint32_t epoch() const { return epoch_.load(std::memory_order_relaxed); }
  // Requires: mean <= largest_mean. Calls are serialised by the caller.
  void set_mean(std::size_t mean) {
    mean_.store(mean, std::memory_order_relaxed);
    epoch_.store(epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // Bounds how many samples of those that are due are followed.
  sample_thinning& thinning() { return thinning_; }
  // An allocation of `size` bytes is due. Returns its weight in units of 2^-weight_shift; 0: it is not to be followed.
  std::uint64_t follow(std::size_t size, std::int64_t now_ms) {
    const std::size_t due = mean();
    // A sample takes memory of its own, which strict mode refuses.
    if (due == 0 || os::in_strict_mode()) return 0;
    const unsigned level = thinning_.note(now_ms);
    const std::size_t followed = std::min(due << level, largest_mean);
    if (followed != due) {
      const auto bytes = static_cast<double>(size);
      const double kept =
          probability(bytes / static_cast<double>(followed)) / probability(bytes / static_cast<double>(due));
      if (uniform() >= kept) return 0;
    }
    return weight(followed, size);
  }

  // Bytes up to the next sample. Requires: mean != 0.
  std::int64_t bytes_until(std::size_t mean) {
    return static_cast<std::int64_t>(exponential() * static_cast<double>(mean));
  }
  // Blocks of `size` bytes before the next sampled one. Requires: mean and size are not 0.
  std::int32_t blocks_until(std::size_t mean, std::size_t size) {
    const double blocks = exponential() * static_cast<double>(mean) / static_cast<double>(size);
    return static_cast<std::int32_t>(std::min(blocks, static_cast<double>(longest)));
  }

  // 1 / p in units of 2^-weight_shift.
  static std::uint64_t weight(std::size_t mean, std::size_t size) {
    constexpr double unit = 1U << weight_shift;
    const double p = probability(static_cast<double>(size) / static_cast<double>(mean));
    return (static_cast<std::uint64_t>(2 * unit / p) + 1) / 2;
  }
  static std::uint64_t weighted(std::uint64_t weight, std::size_t bytes) {
    __extension__ using wide_product = unsigned __int128;
    return static_cast<std::uint64_t>((wide_product{weight} * bytes) >> weight_shift);
  }

  // 1 - exp(-x), for x > 0. libc has no exponential function; libm is not linked.
  static double probability(double x) {
    if (x > 40) return 1;
    // 1 - exp(-x) = y (2 - y) with y = 1 - exp(-x / 2): halve until the series below converges at once.
    unsigned halvings = 0;
    for (; x > 0.25; ++halvings) x /= 2;
    double term = x;
    double sum = x;
    for (int n = 2; n < 10; ++n) {
      term *= -x / n;
      sum += term;
    }
    for (; halvings != 0; --halvings) sum = sum * (2 - sum);
    return sum;
  }

 private:
  // In (0, 1).
  double uniform() { return (static_cast<double>(random_.next() >> 11) + 0.5) * 0x1p-53; }
  double exponential() { return negative_logarithm(uniform()); }

  sample_thinning thinning_;
  std::atomic<std::size_t> mean_{0};
  std::atomic<std::uint32_t> epoch_{0};
  sample_random random_;
};

// The distance to the next sample in bytes, for allocations that no class's countdown counts: large blocks, and those of
// threads without a cache of their own. Owner: a thread.
class byte_countdown {
 public:
  // Whether an allocation of `size` bytes is sampled.
  bool is_due(byte_samples& samples, std::size_t size) {
    const std::size_t mean = samples.mean();
    if (mean == 0) [[likely]]
      return false;
    if (epoch_ != samples.epoch()) {
      epoch_ = samples.epoch();
      left_ = samples.bytes_until(mean);
    }
    left_ -= static_cast<std::int64_t>(std::min<std::size_t>(size, INT64_MAX / 2));
    if (left_ >= 0) return false;
    left_ = samples.bytes_until(mean);
    return true;
  }

 private:
  std::int64_t left_ = 0;
  std::uint32_t epoch_ = 0;
};

}  // namespace tarn
