// SPDX-License-Identifier: MIT
// rate_limit: at most so many events per second on average, and at most `burst` at once (a token bucket, as virtual
// scheduling: ITU-T I.371, "generic cell rate algorithm").
//
// Thread safety: the owner's lock guards it; set_per_second() may be called at any time.
// Invariant: of the events allowed in any t seconds, there are at most burst + per_second * t.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tarn {

class rate_limit {
 public:
  static constexpr std::int64_t burst = 8;
  static constexpr std::int64_t most_per_second = 1000;  // the clock's unit is a millisecond

  constexpr explicit rate_limit(std::int64_t per_second) : interval_us_(interval_of(per_second)) {}

  // 0: any number. Requires: per_second <= most_per_second.
  void set_per_second(std::int64_t per_second) {
    interval_us_.store(interval_of(per_second), std::memory_order_relaxed);
  }

  // Whether an event may happen at this time of a clock that never goes back.
  bool allows(std::int64_t now_ms) {
    const std::int64_t interval = interval_us_.load(std::memory_order_relaxed);
    if (interval == 0) return true;
    const std::int64_t now_us = now_ms * 1000;
    const std::int64_t next = std::max(next_us_, now_us - (burst - 1) * interval);
    if (next > now_us) return false;
    next_us_ = next + interval;
    return true;
  }

 private:
  // Rounded up: of whole milliseconds, 600 events per second would have the interval of 1,000.
  static constexpr std::int64_t interval_of(std::int64_t per_second) {
    return per_second == 0 ? 0 : (1000000 + per_second - 1) / per_second;
  }

  std::atomic<std::int64_t> interval_us_;
  std::int64_t next_us_ = INT64_MIN / 2;
};

}  // namespace tarn
