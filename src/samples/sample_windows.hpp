// SPDX-License-Identifier: MIT
// sample_windows: chooses the allocations that are guarded. The allocations of one size class by one thread are divided
// into windows of equal length; one allocation of each window, at a random place, is guarded. So even a thread's first
// window has one, and no allocation pattern of the program can avoid them.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "samples/sample_random.hpp"

namespace tarn {

class sample_windows {
 public:
  // While guarded allocations are off, each class checks again after this many allocations.
  static constexpr std::int32_t off_interval = 1 << 16;
  static constexpr std::int32_t longest = 1 << 30;

  constexpr sample_windows() = default;

  // Allocations in a window; 0: none is guarded. Each thread and class adopts a change when its next window begins.
  [[nodiscard]] std::int32_t length() const { return length_.load(std::memory_order_relaxed); }
  void set_length(std::int32_t length) { length_.store(length, std::memory_order_relaxed); }

  // A random place in a window. Two concurrent callers may get the same number.
  std::int32_t place(std::int32_t length) {
    return static_cast<std::int32_t>((random_.next() >> 33) % static_cast<std::uint64_t>(length));
  }

 private:
  std::atomic<std::int32_t> length_{1 << 16};  // the default in options.cpp
  sample_random random_;
};

// The allocations left until the next guarded one, for one thread and class, or for one thread.
struct sample_countdown {
  static constexpr std::int32_t no_window = -1;

  std::int32_t until_sample = 0;  // allocations left before the next guarded one; negative: it is due
  std::int32_t after_sample =
      no_window;  // allocations of the window after the guarded one; no_window: none has begun

  // For a thread that counts its allocations: negative for ever, as allocation_counts sets it anew.
  static constexpr sample_countdown counted() { return {INT32_MIN / 2, no_window}; }

  // The next allocation begins the first window.
  static constexpr sample_countdown unplanned() { return {-1, no_window}; }

  // Whether is_due() need be asked.
  [[nodiscard]] bool may_be_due() const { return until_sample < 0; }

  // Whether the next allocation is to be a guarded one. If so, begins the next window.
  bool is_due(sample_windows& windows) {
    if (until_sample >= 0) [[likely]]
      return false;
    const std::int32_t length = windows.length();
    // Allocations left in the window whose guarded one is due now; no_window: there was none.
    const std::int32_t left = std::exchange(after_sample, no_window);
    if (length == 0) {
      until_sample = sample_windows::off_interval;
      return false;
    }
    const std::int32_t place = windows.place(length);
    until_sample = std::max(left, 0) + place;
    after_sample = length - 1 - place;
    return left != no_window;
  }
};

}  // namespace tarn
