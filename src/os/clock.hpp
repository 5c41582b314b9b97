// SPDX-License-Identifier: MIT
// Milliseconds of a clock that never goes back; its resolution is the scheduler's tick.
#pragma once

#include <cstdint>
#include <ctime>

namespace tarn::os {

inline std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

}  // namespace tarn::os
