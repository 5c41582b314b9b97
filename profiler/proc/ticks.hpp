// SPDX-License-Identifier: MIT
// ticks: the clock with which the recorder stamps its events, and the conversion of its ticks to ns of
// CLOCK_MONOTONIC_RAW, with which the kernel stamps page faults.
#pragma once

#include <cstdint>

#include "profiler/proc/tick_source.hpp"

namespace tarn::profiler {

inline constexpr std::uint64_t second_ns = 1'000'000'000;

std::uint64_t raw_clock_ns();
// Processor time of this thread: other load on the machine does not count.
std::uint64_t thread_clock_ns();

// The processor's counter if the kernel itself relies on it; otherwise CLOCK_MONOTONIC_RAW.
tick_source best_tick_source();
// By how many ticks a reading differs from the one before, unless they are equal; the median. The counter of some processors
// advances in steps of many ticks.
std::uint64_t step_of_ticks(tick_source source);

// Measures the ratio of the two clocks by learn(): the longer since construction, the more exact. The constructor
// busy-waits for 20 ms for a first ratio. Not thread-safe.
class tick_clock {
 public:
  explicit tick_clock(tick_source source);

  tick_source source() const noexcept { return source_; }
  unsigned shift() const noexcept { return shift_; }
  void learn();
  std::uint64_t to_ns(std::uint64_t ticks) const noexcept;
  // Takes ticks of the source, not shifted.
  double duration_ns(std::uint64_t ticks) const noexcept { return static_cast<double>(ticks) * ns_per_tick_; }

 private:
  struct reading {
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
  };
  reading read() const;

  tick_source source_;
  unsigned shift_;
  reading first_;
  reading last_;
  double ns_per_tick_ = 1;
};

}  // namespace tarn::profiler
