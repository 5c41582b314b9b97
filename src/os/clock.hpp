// SPDX-License-Identifier: MIT
// clock: monotonic time.
//
// libc's clock_gettime is not used: programs and libraries replace it by functions that use thread-local data, which
// the background thread does not have, or that return a different time. The time is read from the kernel's vDSO without
// a system call; if there is none (before this library's constructors, under valgrind), by the system call.
// Thread safety: any thread.
#pragma once

#include <cstdint>

namespace tarn::os {

// Milliseconds, with the resolution of the scheduler's tick.
std::int64_t now_ms();

std::int64_t now_us();
std::int64_t now_ns();

}  // namespace tarn::os
