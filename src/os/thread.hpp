// SPDX-License-Identifier: MIT
// The engine's one background thread, made without libc, and the holds that keep it away.
//
// pthread_create cannot be used: it takes locks of libc under which libc itself calls free, allocates, and
// makes a process wait at its end for the thread. This thread has no libc thread descriptor: it blocks every
// signal, may only make system calls and touch the engine's own data, and ends with the process. It runs under an
// ordinary scheduling policy and on the processors that the process had when the library was loaded, whatever the thread
// that starts it has.
//
// Since libc does not know it, libc's setuid and the like do not reach it. A hold ends it before such a call, and keeps it
// away until the call is over; the next thread then has the rights of the thread that starts it. Where such a call passes the
// holds by, the thread ends at its next wake-up if the capabilities of the process's first thread have changed.
//
// Memory: one mapping, made at load at a place that the kernel chooses: control page, stack and thread block, each
// between inaccessible pages. A child that does not share memory finds the control page zeroed (MADV_WIPEONFORK), and so
// no thread, no hold, and no process number, however it was made.
//
// States, in one word that the kernel clears when the thread is off its stack (CLONE_CHILD_CLEARTID):
//   none -> running      by ensure_background_thread()
//   running -> leaving   by the thread, which then looks for work once more: leaving -> running if there is some
//   leaving -> wanted    by ensure_background_thread(), which waits for `none` and starts the next thread
//   any -> none          by the kernel, also when the thread dies with a vfork child that had started it
// Thread safety: any thread and any signal handler, unless stated otherwise; errno is left alone.
#pragma once

#include <cstdint>

#include "os/sandbox.hpp"

namespace tarn::os {

#pragma GCC visibility push(hidden)

// What the thread does; defined in runtime/decay.cpp, so that no pointer to it lies in memory. It returns when the thread
// shall end.
void background_thread_body();

// True: the thread is there, or is being started, and will see what was written before the call. False: there is none,
// because it is held off, the system refuses it (then it is tried again after a pause, which doubles), or the caller is in
// a child that shares its parent's memory.
bool ensure_background_thread();

// ---- by the thread itself ----

// Sleeps until the time is over, ring_background_thread() was called or, early, for no reason.
void sleep_in_background_thread(std::int64_t milliseconds);
void ring_background_thread();

// A hold wants the thread to end, or the program has changed its rights without one: the thread returns from background_thread_body() as soon as it holds no lock.
bool background_thread_must_end();

// The thread is about to end: it calls leave, looks for work that was announced before ensure_background_thread(), and
// calls stay if there is some. stay is false when the thread must end all the same: another one is started later.
void leave_background_thread();
bool stay_in_background_thread();

// ---- children ----

// At load and, where a filter forbids the question there, as soon as the program is known to be allowed threads.
void note_own_process();
// By fork's handler in the child, whose control page is zeroed.
void note_forked_child();
// The calling process shares its parent's memory: no thread of its own outlives it, and holds are its parent's. One system
// call. Not told in a sandbox, where there is no thread.
bool in_vfork_child();

// ---- holds ----

// Which page of control words a hold counts in: a child's is another one.
using hold_token = std::uint32_t;

// Whether the calling thread is in a signal handler that has interrupted a section of some lock of the engine, or in a fork
// handler while fork holds them; defined in runtime/fork.cpp.
bool is_above_interrupted_section();

// Ends the thread if there is one and waits until the kernel has left nothing of it; none starts until release. Gives up
// after 50 ms in a signal handler above a section of a lock, for which the thread may wait, and after 10 s anywhere: the
// thread then ends when it has the lock, also after release. Cost without a thread: three atomic operations.
hold_token hold_background_thread();
// Starts a thread, if no other hold is left and there is work: the thread that a hold ended had some, or
// ensure_background_thread() was called meanwhile. In a child made between the two calls: nothing.
void release_background_thread(hold_token token);

// Waits, for half a second at most, until the kernel has taken a thread of this process that is about to end off its list.
void await_end_of_thread(long thread);

#pragma GCC visibility pop

}  // namespace tarn::os
