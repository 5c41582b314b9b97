// SPDX-License-Identifier: MIT
// clock: monotonic time.
//
// libc's clock_gettime is not used: programs and libraries replace it by functions that use thread-local data, which
// the background thread does not have, or that return a different time. The time is read from the kernel's vDSO without
// a system call; if there is none (before this library's constructors, under valgrind), by the system call.
// Thread safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace tarn::os {

#pragma GCC visibility push(hidden)

// A thread for which the processor's counter is off (prctl(PR_SET_TSC), seccomp's strict mode) gets SIGSEGV when it reads
// it, and so when the vDSO reads an exact clock. Threads and processes that it starts inherit that. For good: set if one
// thread of the process has no counter. No program is executed without it: glibc's loader reads it.
inline constinit std::atomic<bool> counter_is_off{false};
inline bool has_counter() { return !counter_is_off.load(std::memory_order_relaxed); }
inline void note_counter_off() { counter_is_off.store(true, std::memory_order_relaxed); }

#pragma GCC visibility pop

// Milliseconds, with the resolution of the scheduler's tick.
std::int64_t now_ms();

// With the resolution of the scheduler's tick if the counter is off.
std::int64_t now_us();
std::int64_t now_ns();

// Processor time of the calling thread, in which the work of others does not count. Makes a system call.
std::int64_t thread_us();

}  // namespace tarn::os
