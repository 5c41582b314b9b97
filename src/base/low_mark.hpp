// SPDX-License-Identifier: MIT
// low_mark: which part of a stock decay gives back: all that was not needed since the last period, which is the lowest
// count of the stock since then. (Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 3.6.)
//
// Invariant: the mark is at most the stock's count. Thread safety: guarded by the lock of the stock.
#pragma once

#include <cstdint>

namespace tarn {

class low_mark {
 public:
  // An item has been taken; `left` are left.
  constexpr void note(std::uint32_t left) { lowest_ = left < lowest_ ? left : lowest_; }
  // Ends a period: how many of the `count` items were not needed in it. The next period begins with all of them.
  constexpr std::uint32_t end_period(std::uint32_t count) {
    const std::uint32_t idle = lowest_;
    lowest_ = count;
    return idle;
  }
  [[nodiscard]] constexpr std::uint32_t lowest() const { return lowest_; }

 private:
  std::uint32_t lowest_ = 0;
};

}  // namespace tarn
