// SPDX-License-Identifier: MIT
// clone_thread: starts a thread of the engine by clone(). The new thread runs tarn_engine_thread_main(which)
// (thread.cpp), which is called by name, so that no pointer to it is stored in memory.
// Owner: thread.cpp. Thread safety: any thread that has claimed the stack.
#pragma once

#include <linux/sched.h>

#include <atomic>

#include "base/architecture.hpp"
#include "os/futex.hpp"
#include "os/syscall.hpp"

namespace tarn::os {

inline constexpr long clone_flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                    CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;

// The kernel writes the thread id to *number before the call returns. When the thread has left its stack, the kernel
// clears *alive and wakes a sleeper. Returns the thread id, or -errno. The child starts on an empty stack, so the call
// and everything after it in the child is assembly.
inline long clone_thread(void* stack_top, void* thread_pointer, std::atomic<int>* number, futex_word* alive,
                         long which) {
  return arch::clone_thread(SYS_clone, clone_flags, stack_top, thread_pointer, number, alive, which);
}

}  // namespace tarn::os
