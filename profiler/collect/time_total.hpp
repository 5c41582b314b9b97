// SPDX-License-Identifier: MIT
// time_total: how long a process was in malloc in all, from its timed calls and from samples of the clock.
//
// Two readings of a counter around a short call tell too little: the processor ends the call after the second reading.
// Samples of the clock have no such error, but say little of the sites, and a few of them say little at all. So the sites'
// times are those of the timed calls, all times the factor that makes their sum the best figure of both: the mean of the
// two, each weighed by the inverse of its variance. That of the timed calls is mostly their systematic error.
//
// A call for a large block is long, so its time is right as it is, and mostly the kernel's, whose part of it is not known.
// The factor is for the others; the clock's samples, which are of user space, are taken to hold half of the large blocks'
// time, give or take the other half.
//
// Any thread.
#pragma once

#include <cstdint>

namespace tarn::profiler {

// Samples of the clock in user space.
struct clock_counts {
  double ns_each = 0;  // 0: the clock was not sampled
  double all = 0;
  double in_malloc = 0;
  double in_recorder = 0;

  void add(const clock_counts& more) noexcept;
};

// Sums over the timed calls' sites.
struct timed_total {
  double small_ns = 0;
  double small_variance = 0;  // of the sampling
  double large_ns = 0;
};

struct time_total {
  double factor = 1;      // of the small blocks' times
  double clock_part = 0;  // 0: the timed calls' figure stands; 1: the clock's
  // Standard errors of the small blocks' time, as parts of it. That of the clock is another one in each recording.
  double clock_error = 0;
  double systematic_error = 0;
};

// What timed calls were wrong by on 15 programs, as a standard error; docs/design/0023-estimators.md.
inline constexpr double timed_calls_error = 0.35;

time_total total_time(const timed_total& timed, const clock_counts& clock);

}  // namespace tarn::profiler
