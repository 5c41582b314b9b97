// SPDX-License-Identifier: MIT
// own_calls: system calls that the recorder makes for its own purposes while the program runs. A program that has
// installed a seccomp filter may be killed for a call that it does not make itself, so after that the recorder
// makes none: own_call returns -EPERM instead. Calls that malloc needs anyway (mmap, munmap) are made directly.
//
// A filter is noticed when it is installed through libc's prctl or syscall. A filter from before the program's
// start, as in a container, has let the recorder begin, and is assumed to let it go on. Thread safety: any thread
// and any signal handler; errno is not changed.
#pragma once

#include <errno.h>

#include <atomic>

#include "os/syscall.hpp"
#include "unwind/stack_memory.hpp"

namespace tarn::profiler::recorder {

// In memory that a forked child inherits, as it inherits the filters. Relaxed: a thread that installs a filter for
// all threads (SECCOMP_FILTER_FLAG_TSYNC) sets the flag before it enters the kernel.
inline std::atomic<bool> has_filter{false};

inline bool in_sandbox() { return has_filter.load(std::memory_order_relaxed); }

// Returns the kernel's result, or -EPERM in a sandbox.
template <class... Arguments>
long own_call(long number, Arguments... arguments) {
  return in_sandbox() ? -EPERM : os::system_call(number, arguments...);
}

// How a page of a stack is asked for. As in the engine's walk: a filter that allows malloc allows madvise. In strict mode
// nothing is recorded.
inline unwind::stack_memory::question stack_question() {
  return in_sandbox() ? unwind::stack_memory::question::madvise : unwind::stack_memory::question::sigprocmask;
}

// The recorder says nothing more: the program has turned the processor's counter off, by which events are timed
// (prctl(PR_SET_TSC)), or has entered seccomp's strict mode, which does that too, and allows not even malloc's calls. Both
// hold for the calling thread and for all that it starts; the recording ends for all threads. Never cleared.
inline std::atomic<bool> is_silent{false};

inline bool has_fallen_silent() { return is_silent.load(std::memory_order_relaxed); }

}  // namespace tarn::profiler::recorder
