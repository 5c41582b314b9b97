// SPDX-License-Identifier: MIT
// tick_source: what short times are measured with, inside of the program too. Any thread and any signal handler; errno is
// not changed.
#pragma once

#include <time.h>

#include <cstdint>

#include "base/architecture.hpp"

namespace tarn::profiler {

// The processor's counter, or CLOCK_MONOTONIC_RAW in ns.
enum class tick_source : std::uint32_t { counter, system_clock };

inline std::uint64_t read_ticks(tick_source source) {
  if (source == tick_source::counter) return arch::counter();
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace tarn::profiler
