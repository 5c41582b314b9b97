// SPDX-License-Identifier: MIT
// signal_frame: finds the frame that the kernel makes for a signal's handler on a thread's stack, where no call path leads
// there: if the handler or its restorer has no unwind tables. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

namespace tarn::profiler {

// Whether the words have the form of such a frame.
bool has_signal_frame(std::span<const std::uint64_t> words);

// Whether the thread may be in a signal's handler: a frame lies above its stack pointer. It may be left of an earlier
// signal. Requires that the thread is stopped. Costs a copy of up to 1 MiB of the stack.
bool may_be_in_handler(pid_t process, std::uint64_t stack_pointer);

}  // namespace tarn::profiler
