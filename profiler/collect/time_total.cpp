// SPDX-License-Identifier: MIT
#include "profiler/collect/time_total.hpp"

#include <algorithm>
#include <cmath>

namespace tarn::profiler {

void clock_counts::add(const clock_counts& more) noexcept {
  ns_each = std::max(ns_each, more.ns_each);
  all += more.all;
  in_malloc += more.in_malloc;
  in_recorder += more.in_recorder;
}

time_total total_time(const timed_total& timed, const clock_counts& clock) {
  time_total result;
  if (timed.small_ns <= 0) return result;
  result.systematic_error = timed_calls_error;
  if (clock.ns_each <= 0 || clock.all <= 0) return result;
  const double large_half = timed.large_ns / 2;
  const double by_clock = std::max(0.0, clock.in_malloc * clock.ns_each - large_half);
  // One sample more than were taken: no sample does not mean no time. A uniform distribution over a range has
  // range^2 / 12 as its variance.
  const double clock_variance =
      clock.ns_each * clock.ns_each * (clock.in_malloc + 1) + timed.large_ns * timed.large_ns / 12;
  // The error is a share of the true time, which either figure may be near to; a share of a timed figure that is
  // far too low would be too small.
  const double error = timed_calls_error * std::max(timed.small_ns, by_clock);
  const double timed_variance = timed.small_variance + error * error;
  result.clock_part = timed_variance / (timed_variance + clock_variance);
  const double best = result.clock_part * by_clock + (1 - result.clock_part) * timed.small_ns;
  result.factor = best / timed.small_ns;
  if (best <= 0) return result;
  result.clock_error = result.clock_part * std::sqrt(clock_variance) / best;
  result.systematic_error = (1 - result.clock_part) * error / best;
  return result;
}

}  // namespace tarn::profiler
