// SPDX-License-Identifier: MIT
// contention: counts, for each lock, how often it is taken, waited for and passed between threads, and how long it is
// held, while the option `contention` is on.
//
// A lock stays eight bytes: its counts are in a record of a fixed table, found by the lock's address. The record is
// written by the lock's holder only, so counting takes no atomic read-modify-write operation and makes no cache line
// common to threads that do not share the lock. While counting is off, a lock reads one word, which nobody writes.
// A structure that is made where another one ended continues the counts of the other one's lock.
// Thread safety: note_taken() and note_release() by the lock's holder, the other functions by any thread.
// Invariants: counts.transfers <= counts.taken, counts.waits <= counts.taken,
// counts.held_after_transfer <= counts.held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "os/clock.hpp"

namespace tarn::os::contention {

// Times are in ticks of the processor's counter; nanoseconds() converts them.
struct lock_counts {
  std::uint64_t taken = 0;
  std::uint64_t transfers = 0;  // of these, by another thread than the last time
  std::uint64_t waits = 0;      // of these, after another thread had released it
  std::uint64_t waited = 0;
  std::uint64_t held = 0;
  std::uint64_t held_after_transfer = 0;  // the part of `held` that belongs to `transfers`
  std::uint64_t longest = 0;              // the longest time that it was held
};

// All members are relaxed: the lock orders its holders' accesses, and a reader wants no more than each figure.
struct alignas(separation) lock_record {
  std::atomic<const void*> lock{nullptr};
  std::atomic<std::uintptr_t> last_holder{0};
  std::atomic<std::uint64_t> since{0};  // when it was taken; 0: it is free
  std::atomic<bool> is_transfer{false};
  // The number of the last report that gave this lock a name; see runtime/lock_statistics.cpp.
  std::atomic<std::uint32_t> report{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> transfers{0};
  std::atomic<std::uint64_t> waits{0};
  std::atomic<std::uint64_t> waited{0};
  std::atomic<std::uint64_t> held{0};
  std::atomic<std::uint64_t> held_after_transfer{0};
  std::atomic<std::uint64_t> longest{0};

  [[nodiscard]] lock_counts counts() const;
};

// Hidden visibility: accesses need no global offset table.
#pragma GCC visibility push(hidden)

// The tick at which counting began; 0: it is off. What was taken before is not counted when it is released.
inline constinit std::atomic<std::uint64_t> counting_since{0};

// 0 while counting is off, all ones while it is on: see basic_mutex. Apart from what is written often.
alignas(separation) inline constinit std::atomic<std::uintptr_t> detour{0};

inline bool is_on() { return counting_since.load(std::memory_order_relaxed) != 0; }
void set(bool on);

// 0: the counter is off.
inline std::uint64_t ticks() {
  if (!has_counter()) return 0;
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  std::uint64_t value = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#endif
}

// `waited`: 0, or for how many ticks the caller has waited for the lock.
void note_taken(const void* lock, std::uintptr_t holder, std::uint64_t waited);
// Called before the lock is released.
void note_release(const void* lock);

// How often a lock was taken that found no record, because the table was full.
std::uint64_t lost();
// Null: the lock was never taken while counting was on.
lock_record* record_of(const void* lock);
// By the ratio of ticks and time since counting was turned on last.
std::uint64_t nanoseconds(std::uint64_t counted);

inline constexpr std::size_t most_records = 2048;
extern constinit lock_record records[most_records];

#pragma GCC visibility pop

}  // namespace tarn::os::contention
