// SPDX-License-Identifier: MIT
// Clocks that never go back.
//
// libc's clock_gettime is not used: programs and libraries replace it by functions with thread-local data, which the
// background thread does not have, or by functions that tell another time. The time comes from the kernel's vDSO, without
// a system call, and where there is none (before this library's constructors, under valgrind) from the system call.
// Thread safety: any thread.
#pragma once

#include <cstdint>

namespace tarn::os {

// Milliseconds. Its resolution is the scheduler's tick.
std::int64_t now_ms();

std::int64_t now_us();
std::int64_t now_ns();

}  // namespace tarn::os
