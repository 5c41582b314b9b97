// SPDX-License-Identifier: MIT
// Clocks that never go back.
#pragma once

#include <cstdint>
#include <ctime>

namespace tarn::os {

// Its resolution is the scheduler's tick.
inline std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

inline std::int64_t now_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
}

}  // namespace tarn::os
