// SPDX-License-Identifier: MIT
// growth_marks: times from which growth up to the end is told. Whoever reads notes at each mark what lives, for two marks. The mark that
// is used leaves half of the time at least, so that each part of the rest has readings, and about a quarter at least lies before it.
// Invariant: older() <= newer() / 2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tarn::profiler {

class growth_marks {
 public:
  // Whether `time_ns` is a new mark, the newer of the two from now on. Requires: times do not fall.
  bool pass(std::uint64_t time_ns) noexcept {
    if (time_ns < 2 * times_[1]) return false;
    times_ = {times_[1], time_ns};
    return true;
  }
  // 0: the older mark, 1: the newer.
  [[nodiscard]] std::size_t used(std::uint64_t end_ns) const noexcept {
    return 2 * times_[1] <= end_ns ? 1 : 0;
  }
  [[nodiscard]] std::uint64_t time_ns(std::uint64_t end_ns) const noexcept { return times_[used(end_ns)]; }

 private:
  std::array<std::uint64_t, 2> times_{};
};

}  // namespace tarn::profiler
