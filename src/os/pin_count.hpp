// SPDX-License-Identifier: MIT
// pin_count: how many threads work on a structure without its registry's lock, and whether the structure is about to end.
//
// Owner: the structure, which is never given back to the system, so that a late wake() finds it. Thread safety: all
// but wait() and wake() are called under the registry's lock.
// A thread that ends a structure sleeps until the last pin is gone, so that a thread of high priority never spins for one
// that it keeps from running.
#pragma once

#include <climits>
#include <cstdint>

#include "os/futex.hpp"

namespace tarn::os {

class pin_count {
 public:
  // Requires: !is_ending().
  void pin() { set(value() + 1); }
  // True: the caller calls wake() once it has released the lock. In a forked child the count may be 0 already: see reset().
  [[nodiscard]] bool unpin() {
    if (!is_free()) set(value() - 1);
    return value() == ending;
  }
  void wake() { futex_wake(&word_, INT_MAX); }

  // No pins are added from here on.
  void begin_ending() { set(value() | ending); }
  [[nodiscard]] bool is_ending() const { return (value() & ending) != 0; }
  void stop_ending() { set(value() & ~ending); }
  [[nodiscard]] bool is_free() const { return (value() & ~ending) == 0; }
  // Sleeps while there are pins, or returns for no reason. Without the lock, after begin_ending().
  void wait() {
    const std::uint32_t seen = value();
    if (seen != ending) futex_wait(&word_, seen);
  }

  // In a forked child, where the pins' threads do not exist. The calling thread may have some of its own.
  void reset() { set(value() & ending); }

 private:
  static constexpr std::uint32_t ending = 1U << 31;

  // The lock orders all changes; wait() only compares.
  [[nodiscard]] std::uint32_t value() const { return word_.load(std::memory_order_relaxed); }
  void set(std::uint32_t value) { word_.store(value, std::memory_order_relaxed); }

  futex_word word_{0};
};

}  // namespace tarn::os
