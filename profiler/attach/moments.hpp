// SPDX-License-Identifier: MIT
// moments: monotonic time in seconds, and sleeping. Any thread.
#pragma once

#include <time.h>

namespace tarn::profiler {

inline double now_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline void pause_for(double seconds) {
  timespec time = {};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>(1e9 * (seconds - static_cast<double>(time.tv_sec)));
  nanosleep(&time, nullptr);
}

}  // namespace tarn::profiler
