// SPDX-License-Identifier: MIT
// retry_pause: after how many periods something that was refused is tried again: twice as many after each refusal, at most
// `longest` (exponential backoff).
//
// Thread safety: any thread may call any member. Concurrent calls may lose a change: the pause is a matter of speed only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tarn {

class retry_pause {
 public:
  static constexpr std::uint32_t longest = 256;

  [[nodiscard]] bool is_over() const { return left_.load(std::memory_order_relaxed) == 0; }
  // Ends a period in which nothing was tried.
  void end_period() {
    const std::uint32_t left = left_.load(std::memory_order_relaxed);
    left_.store(left != 0 ? left - 1 : 0, std::memory_order_relaxed);
  }
  // Ends a period in which it was tried.
  void end_period_with_try(bool refused) {
    const std::uint32_t pause = length_.load(std::memory_order_relaxed);
    const std::uint32_t next = refused ? std::min(std::max(2 * pause, 1U), longest) : 0;
    length_.store(next, std::memory_order_relaxed);
    left_.store(next, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> left_{0};    // periods
  std::atomic<std::uint32_t> length_{0};  // of the last pause
};

}  // namespace tarn
