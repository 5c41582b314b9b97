// SPDX-License-Identifier: MIT
// pin_count: the number of threads that use a structure without its registry's lock, and whether the structure is being
// ended.
//
// Owner: the structure, which is never given back to the system, so a late wake() is harmless. Thread safety: all
// members except wait() and wake() are called under the registry's lock. The thread that ends a structure sleeps until
// the last pin is gone; it does not spin, so it cannot block a pinning thread of lower priority.
// Invariant: word == pins + (ending ? 2^31 : 0), and pins < 2^31.
#pragma once

#include <climits>
#include <cstdint>

#include "os/futex.hpp"
#include "os/invariant.hpp"

namespace tarn::os {

class pin_count {
 public:
  // Allowed while the structure is being ended, if the thread that ends it awaits the pins once more afterwards.
  void pin() {
    if constexpr (TARN_CHECKS != 0) TARN_INVARIANT("pin_count", this, (value() & ~ending) + 1 < ending);
    set(value() + 1);
  }
  // True: the caller must call wake() after it has released the lock. In a forked child the count may be 0 already: see
  // reset().
  [[nodiscard]] bool unpin() {
    if (!is_free()) set(value() - 1);
    return value() == ending;
  }
  void wake() { futex_wake(&word_, INT_MAX); }

  void begin_ending() { set(value() | ending); }
  [[nodiscard]] bool is_ending() const { return (value() & ending) != 0; }
  void stop_ending() { set(value() & ~ending); }
  [[nodiscard]] bool is_free() const { return (value() & ~ending) == 0; }
  // Sleeps while there are pins; may return spuriously. Call without the lock, after begin_ending().
  void wait() {
    const std::uint32_t seen = value();
    if (seen != ending) futex_wait(&word_, seen);
  }

  // In a forked child: drops all pins, since their threads do not exist. The calling thread may still unpin its own.
  void reset() { set(value() & ending); }

 private:
  friend class pin_count_test_access;

  static constexpr std::uint32_t ending = 1U << 31;

  // Relaxed: the lock orders all changes; wait() only compares.
  [[nodiscard]] std::uint32_t value() const { return word_.load(std::memory_order_relaxed); }
  void set(std::uint32_t value) { word_.store(value, std::memory_order_relaxed); }

  futex_word word_{0};
};

}  // namespace tarn::os
