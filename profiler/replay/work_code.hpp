// SPDX-License-Identifier: MIT
// work_code: encodes a time in ns in one byte, with an error of up to 7 %: the program's own work before a call, in
// a replayed operation. Pure functions.
#pragma once

#include <cstdint>

namespace tarn::profiler {

inline constexpr std::uint64_t most_work_ns = std::uint64_t{15} << 15;

// 15 << 15 ns stands for all longer times.
constexpr std::uint8_t code_of_work(std::uint64_t ns) {
  if (ns >= most_work_ns) return 0xff;
  unsigned shift = 0;
  while ((ns >> shift) > 15) ++shift;
  std::uint64_t digits = ns >> shift;
  if (shift > 0 && ((ns >> (shift - 1)) & 1) != 0) ++digits;  // to the nearest
  if (digits > 15) {
    digits >>= 1;
    ++shift;
  }
  return static_cast<std::uint8_t>(shift << 4 | digits);
}

constexpr std::uint64_t work_of_code(std::uint8_t code) {
  return static_cast<std::uint64_t>(code & 15) << (code >> 4);
}

}  // namespace tarn::profiler
