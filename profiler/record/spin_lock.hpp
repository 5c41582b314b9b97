// SPDX-License-Identifier: MIT
// spin_lock: a lock that is free when zeroed, so that it is free again in a forked child that finds its memory wiped.
// For sections of a few instructions that are rarely entered; waiting threads give their processor away.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/syscall.hpp"

namespace tarn::profiler {

class spin_lock {
 public:
  void lock() noexcept {
    // acquire, pairs with unlock's release
    while (word_.exchange(1, std::memory_order_acquire) != 0) os::system_call(SYS_sched_yield);
  }
  void unlock() noexcept { word_.store(0, std::memory_order_release); }

 private:
  std::atomic<std::uint32_t> word_;
};

class lock_holder {
 public:
  explicit lock_holder(spin_lock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~lock_holder() { lock_.unlock(); }
  lock_holder(const lock_holder&) = delete;
  lock_holder& operator=(const lock_holder&) = delete;

 private:
  spin_lock& lock_;
};

}  // namespace tarn::profiler
