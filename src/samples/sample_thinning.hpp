// SPDX-License-Identifier: MIT
// sample_thinning: bounds what the heap profile costs in a program that allocates gigabytes a second. While more samples
// are due than wanted, the mean distance R of two samples is in effect 2^level * R: of the samples that are due at R, as many
// are refused as makes it so (byte_samples::follow()).
//
// The level follows from samples that were due before and from the time since, never from the one that is decided on: so,
// given all that happened before, an allocation is followed with a known probability, and the estimate stays unbiased.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread; what two threads note at the same
// time may be counted a little wrong, which changes when the level changes, not what a sample stands for.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

namespace tarn {

class sample_thinning {
 public:
  static constexpr std::uint32_t wanted_per_second = 1000;
  static constexpr unsigned most_level = 20;

  // Off: every sample is followed.
  void set(bool on) { on_.store(on, std::memory_order_relaxed); }

  // A sample is due. Returns the level that holds for it. `now_ms`: a clock that never goes back.
  unsigned note(std::int64_t now_ms) { return on_.load(std::memory_order_relaxed) ? note_due(now_ms) : 0; }

 private:
  static constexpr std::int64_t period_ms = 128;
  static constexpr std::uint32_t wanted = wanted_per_second * period_ms / 1000;

  // Counts a due sample. Returns the level that follows from those before it and from the time that has passed since.
  unsigned note_due(std::int64_t now_ms) {
    const unsigned level = level_.load(std::memory_order_relaxed);
    std::int64_t began = began_ms_.load(std::memory_order_relaxed);
    const std::int64_t elapsed = now_ms - began;
    if (elapsed >= period_ms && began_ms_.compare_exchange_strong(began, now_ms, std::memory_order_relaxed)) {
      const std::uint64_t due = due_.exchange(1, std::memory_order_relaxed);
      const std::uint64_t per_period = due * period_ms / static_cast<std::uint64_t>(elapsed);
      const unsigned now = level_for(per_period);
      level_.store(now, std::memory_order_relaxed);
      return now;
    }
    // Within a period the level only rises: as soon as a period at this level would have too many.
    const std::uint32_t due = due_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (due > std::uint64_t{wanted} << level && level < most_level)
      level_.store(level + 1, std::memory_order_relaxed);
    return level;
  }

  // The least level at which at most `wanted` of so many are followed.
  static unsigned level_for(std::uint64_t due) {
    const std::uint64_t ratio = (due + wanted - 1) / wanted;
    return ratio <= 1 ? 0 : std::min(static_cast<unsigned>(std::bit_width(ratio - 1)), most_level);
  }

  std::atomic<bool> on_{false};
  std::atomic<unsigned> level_{0};
  std::atomic<std::uint32_t> due_{0};
  std::atomic<std::int64_t> began_ms_{0};
};

}  // namespace tarn
