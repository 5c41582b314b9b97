// SPDX-License-Identifier: MIT
// sandbox: whether a seccomp filter might end the process for a system call that the program does not make itself.
//
// A filter that a launcher installed before the program was executed is found at load. What it allows cannot be
// queried; the program shows it: once the program has a second thread or has made a child, system calls for threads are
// allowed, and with them those of the engine. A filter that is installed later is noted by the gates, for good.
// Thread safety: any thread and any signal handler; errno is left alone.
#pragma once

#include <atomic>

namespace tarn::os {

#pragma GCC visibility push(hidden)

// True: make only the system calls that malloc itself needs, and start no thread. Cost: two or three loads once the
// answer is known, which is after the constructors; before that, opens, reads and closes a file, calls that the dynamic
// linker has just made too.
bool in_sandbox();

// The same, but only for filters installed after the program's start: files cannot be opened any more.
inline constinit std::atomic<bool> sandbox_entered{false};
inline bool has_entered_sandbox() { return sandbox_entered.load(std::memory_order_relaxed); }

// Called by the gates when a filter has been installed.
void note_sandbox();

// seccomp's strict mode, which allows read, write, exit and sigreturn only: also no system call that malloc can do
// without, as giving memory back.
inline constinit std::atomic<bool> strict_mode_entered{false};
inline bool in_strict_mode() { return strict_mode_entered.load(std::memory_order_relaxed); }

// Called by the gates when strict mode has begun. It also takes the processor's counter away.
void note_strict_mode();

// Whether any filter is installed, also one that allows threads: system calls that no program needs for its threads may
// end the process all the same. Cost: as in_sandbox().
bool is_filtered();

// Whether allow_thread_calls() has been called. Cost: a load.
bool has_shown_threads();

// The program has shown that no filter from before its start forbids system calls for threads. False: this is known
// already. Called by note_threads_allowed().
bool allow_thread_calls();

#pragma GCC visibility pop

}  // namespace tarn::os
