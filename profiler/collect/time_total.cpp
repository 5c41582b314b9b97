// SPDX-License-Identifier: MIT
#include "profiler/collect/time_total.hpp"

#include <algorithm>
#include <cmath>

namespace tarn::profiler {

void clock_counts::add(const clock_counts& more) noexcept {
  const double longest = std::max(ns_each, more.ns_each);
  if (longest <= 0) return;
  const double mine = ns_each / longest;
  const double others = more.ns_each / longest;
  all = mine * all + others * more.all;
  in_malloc = mine * in_malloc + others * more.in_malloc;
  in_recorder = mine * in_recorder + others * more.in_recorder;
  malloc_squares = mine * mine * malloc_squares + others * others * more.malloc_squares;
  ns_each = longest;
}

namespace {

// User time of threads and moments that have no samples. Many kernels divide processor time into user and system
// time by sampling at each timer tick; two standard errors of that division, and two ticks, are no missing samples.
double uncovered_ns(const clock_counts& clock, const charged_time& charged) {
  constexpr double tick_ns = 4e6;
  const double all = charged.user_ns + charged.system_ns;
  if (all <= 0) return 0;
  const double inexact = 2 * (tick_ns + std::sqrt(tick_ns * charged.user_ns * charged.system_ns / all));
  return std::max(0.0, charged.user_ns - clock.all * clock.ns_each - inexact);
}

}  // namespace

time_total total_time(const timed_total& timed, const clock_counts& clock, const charged_time& charged) {
  time_total result;
  if (timed.small_ns <= 0) return result;
  result.systematic_error = timed_calls_error;
  if (clock.ns_each <= 0 || clock.all <= 0) return result;
  const double large_half = timed.large_ns / 2;
  const double share = std::min(1.0, clock.in_malloc / clock.all);
  const double uncovered = uncovered_ns(clock, charged);
  const double by_clock = std::max(0.0, clock.in_malloc * clock.ns_each + share * uncovered - large_half);
  // One sample more than were taken: no sample does not mean no time. A uniform distribution over a range has
  // range^2 / 12 as its variance.
  const double clock_variance =
      clock.ns_each * clock.ns_each * (clock.malloc_squares + 1) + timed.large_ns * timed.large_ns / 12;
  // Malloc's share of the uncovered time is taken to be that of the samples, and may be any from 0 to 1: a uniform
  // distribution's mean square distance from `share`.
  const double from_half = share - 0.5;
  const double uncovered_variance = uncovered * uncovered * (1.0 / 12 + from_half * from_half);
  // The error is a share of the true time, which either figure may be near to; a share of a timed figure that is
  // far too low would be too small.
  const double error = timed_calls_error * std::max(timed.small_ns, by_clock);
  const double timed_variance = timed.small_variance + error * error;
  result.clock_part = timed_variance / (timed_variance + clock_variance + uncovered_variance);
  const double best = result.clock_part * by_clock + (1 - result.clock_part) * timed.small_ns;
  result.factor = best / timed.small_ns;
  if (best <= 0) return result;
  result.clock_error = result.clock_part * std::sqrt(clock_variance) / best;
  result.systematic_error =
      std::hypot((1 - result.clock_part) * error, result.clock_part * std::sqrt(uncovered_variance)) / best;
  return result;
}

}  // namespace tarn::profiler
