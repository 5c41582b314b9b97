// SPDX-License-Identifier: MIT
// mutex: a lock of four bytes that needs no initialisation, no destruction and no libc.
//
// It spins for a bounded time and then sleeps, so that a thread of high priority never spins for one that it
// keeps from running. Sections are short and make no system call. Locks are taken in the order of their ranks
// (lowest first), which the checked build verifies: see lock_rank.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.hpp"
#include "os/futex.hpp"

namespace tarn::os {

// The order in which one thread may take locks. Two locks of one rank are taken together only by fork, by
// walks over all caches or depots, and to move a span between depots, in the order of the array or list.
enum class lock_rank : std::uint8_t {
  settings,
  registry,
  extensions,
  caretaker,
  recyclers,
  recycler,
  pools,
  depot,
  page_heap,
  span_metadata,
  metadata
};

#if TARN_CHECKS
// Bit r is set while the thread holds a lock of rank r.
inline thread_local std::uint32_t held_ranks = 0;
#endif

class mutex {
 public:
  constexpr explicit mutex(lock_rank rank) : rank_(rank) {}
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() {
    check_order();
    std::uint32_t expected = unlocked;
    // acquire: sees what the last holder wrote before its unlock().
    if (TARN_UNLIKELY(!word_.compare_exchange_strong(expected, locked, std::memory_order_acquire,
                                                     std::memory_order_relaxed))) {
      lock_slow();
    }
    note(true);
  }

  void unlock() {
    note(false);
    // release: partner of the acquire in lock() and lock_slow().
    if (TARN_UNLIKELY(word_.exchange(unlocked, std::memory_order_release) == contended)) {
      futex_wake(&word_, 1);
    }
  }

  // In a forked child, where the holder may not exist any more.
  void reset() {
    note(false);
    word_.store(unlocked, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t unlocked = 0;
  static constexpr std::uint32_t locked = 1;
  static constexpr std::uint32_t contended = 2;
  static constexpr int spin_limit = 200;

  TARN_COLD void lock_slow() {
    for (int spin = 0; spin < spin_limit; ++spin) {
      std::uint32_t expected = unlocked;
      if (word_.load(std::memory_order_relaxed) == unlocked &&
          word_.compare_exchange_weak(expected, locked, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return;
      }
      pause();
    }
    while (word_.exchange(contended, std::memory_order_acquire) != unlocked) futex_wait(&word_, contended);
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    asm volatile("yield");
#endif
  }

#if TARN_CHECKS
  void check_order() const {
    // Locks of the same rank may be held together; see lock_rank.
    if ((held_ranks >> (static_cast<unsigned>(rank_) + 1)) != 0) __builtin_trap();
  }
  void note(bool taken) const {
    // A rank held twice is forgotten at its first unlock: the check is then laxer, never wrong.
    const std::uint32_t bit = 1U << static_cast<unsigned>(rank_);
    held_ranks = taken ? held_ranks | bit : held_ranks & ~bit;
  }
#else
  static void check_order() {}
  static void note(bool) {}
#endif

  futex_word word_{unlocked};
  [[maybe_unused]] lock_rank rank_;
};

class lock_guard {
 public:
  explicit lock_guard(mutex& m) : mutex_(m) { mutex_.lock(); }
  ~lock_guard() { mutex_.unlock(); }
  lock_guard(const lock_guard&) = delete;
  lock_guard& operator=(const lock_guard&) = delete;

 private:
  mutex& mutex_;
};

}  // namespace tarn::os
