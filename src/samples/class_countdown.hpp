// SPDX-License-Identifier: MIT
// class_countdown: the allocations of one class by one thread up to its next stop. At a stop the slow path of malloc
// looks whether a guarded allocation (sample_windows.hpp) or one for the heap profile (byte_samples.hpp) is due, and
// chooses the next stop: the nearer of the two. So the fast path counts once for both.
//
// until_sample belongs to the owner, which changes it by one instruction without a lock. Another thread may ask for an
// early stop (expire()): it subtracts `expired` by one atomic instruction. Either that takes effect as a whole, or the
// owner's store overwrites it as a whole; so no count is lost, and value() gives what the owner has counted.
//
// Invariant (thread_cache::validate()): value() is in [-1, longest_step] between two allocations, or, while the thread
// counts its allocations, less than counted_below.
#pragma once

#include <cstdint>

#include "base/compiler.hpp"

namespace tarn {

struct class_countdown {
  static constexpr std::int32_t longest_step = (1 << 27) - 1;
  static constexpr std::int32_t expired = 1 << 28;
  // For a thread that counts its allocations: negative for ever, as allocation_counts sets it anew.
  static constexpr std::int32_t counted = INT32_MIN / 2;
  static constexpr std::int32_t counted_below = INT32_MIN / 4;
  static constexpr std::int32_t no_plan = -1;

  std::int32_t until_sample = 0;  // allocations before the next stop; negative: it is due
  // The allocation for the profile is this many behind the one at the stop; no_plan: not yet drawn.
  std::int32_t profiled_behind = no_plan;

  // until_sample without what expire() has subtracted.
  [[nodiscard]] std::int32_t value() const { return until_sample + (is_expired() ? expired : 0); }

  // Called by another thread. False: a stop is due anyway.
  TARN_NOINLINE __attribute__((no_sanitize("thread"))) bool expire() {
    if (__atomic_load_n(&until_sample, __ATOMIC_RELAXED) < 0) return false;
    __atomic_fetch_sub(&until_sample, expired, __ATOMIC_RELAXED);
    return true;
  }

 private:
  [[nodiscard]] bool is_expired() const {
    constexpr std::int32_t half = expired / 2;
    return until_sample < counted - half || (until_sample < -half && until_sample >= counted_below);
  }
};

}  // namespace tarn
