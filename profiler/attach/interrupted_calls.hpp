// SPDX-License-Identifier: MIT
// interrupted_calls: system calls that a stop ends with EINTR although no signal was handled (signal(7)): the kernel does
// not restart them. Reads /proc; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "profiler/attach/thread_state.hpp"

namespace tarn::profiler {

// Whether the call can be made again after EINTR with the same effect as if it had not been interrupted, except that a
// timeout begins anew.
bool may_be_repeated(long system_call);

// The registers with which a stopped thread is to go on: those of the stop, but a system call that fails only because
// of the stop is executed again. Not if a signal waits that the program handles: EINTR is for it then.
register_set without_interruption(pid_t process, pid_t thread, const thread_state& stopped);

// Whether a stopped thread slept in a wait for the lock (futex) at that address.
bool waits_for_lock_at(pid_t process, const register_set& set, std::uint64_t address);

// How much a stop of the thread may disturb the program, lowest first.
enum class disturbance {
  none,     // it runs
  restart,  // it sleeps in a system call that the kernel restarts
  repeat,   // in one that is to be repeated
};
disturbance disturbance_of(pid_t process, pid_t thread);

}  // namespace tarn::profiler
