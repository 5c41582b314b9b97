// SPDX-License-Identifier: MIT
// time_total: the total time of a process in malloc, from its timed calls and from clock samples.
//
// Reading a counter before and after a short call is biased: out-of-order execution lets the call finish after the
// second reading. Clock samples have no such bias, but say little about single sites, and a few of them say little
// at all. So each site's time is that of its timed calls times one factor for all sites, chosen so that their sum
// is the best estimate of the total: the mean of both figures, weighted by the inverse of their variances. The
// variance of the timed calls is mostly their systematic error.
//
// A call for a large block takes long, so its measured time is right, and most of it is spent in the kernel; how
// much is not known. The factor applies to the other calls. Clock samples are of user space: they are assumed to
// contain half of the large blocks' time, with an uncertainty of the other half.
//
// Samples may be missing: the kernel starts each thread at the beginning of a period, so one that ends within its
// first period has no sample; records are lost where a buffer is full; the kernel may throttle the clock. So the
// time that the samples stand for is compared with the user time that the kernel has charged. Malloc may have any
// share of what they do not cover.
//
// Any thread.
#pragma once

namespace tarn::profiler {

// Numbers of clock samples in user space; one of a shorter period counts as a part of one. The sum of the squares of
// these parts is the variance of their sum.
struct clock_counts {
  double ns_each = 0;  // the longest period; 0: the clock was not sampled
  double all = 0;
  double in_malloc = 0;
  double in_recorder = 0;
  double malloc_squares = 0;

  void add(const clock_counts& more) noexcept;
};

// Sums over all sites, from timed calls.
struct timed_total {
  double small_ns = 0;
  double small_variance = 0;  // variance due to sampling
  double large_ns = 0;
};

// The processor time of the same processes, as charged by the kernel. 0: not known; then the samples count as complete.
struct charged_time {
  double user_ns = 0;
  double system_ns = 0;
};

struct time_total {
  double factor = 1;      // multiplies the times of calls for small blocks
  double clock_part = 0;  // weight of the clock's figure; 0: timed calls alone, 1: clock alone
  // Standard errors of the time for small blocks, as shares of it. The clock's error is independent in each
  // recording; those of timed calls and of time without samples are the same in all of them.
  double clock_error = 0;
  double systematic_error = 0;
};

// Standard error of timed calls as measured on 15 programs; docs/design/0023-estimators.md.
inline constexpr double timed_calls_error = 0.35;

time_total total_time(const timed_total& timed, const clock_counts& clock, const charged_time& charged = {});

}  // namespace tarn::profiler
