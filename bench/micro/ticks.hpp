// SPDX-License-Identifier: MIT
// ticks(): the processor's time counter (TSC on x86-64, CNTVCT on aarch64), fenced, and its rate. Ticks are those of
//   the counter, not of the core's clock.
// Thread safety: any thread.
#pragma once

#include "../workloads/support.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace bench {

#if defined(__x86_64__)
// The fence keeps earlier work from being counted late and later work from starting early.
inline std::uint64_t ticks() {
  _mm_lfence();
  const std::uint64_t value = __rdtsc();
  _mm_lfence();
  return value;
}
#elif defined(__aarch64__)
inline std::uint64_t ticks() {
  std::uint64_t value = 0;
  asm volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(value)::"memory");
  return value;
}
#else
#error "the benchmarks know the time counters of x86-64 and aarch64 only"
#endif

// Ticks per nanosecond, so that a reader can convert. Takes 20 ms.
inline double tick_rate() {
  const stopwatch clock;
  const std::uint64_t start = ticks();
  while (clock.seconds() < 0.02) {
  }
  return static_cast<double>(ticks() - start) / (clock.seconds() * 1e9);
}

}  // namespace bench
