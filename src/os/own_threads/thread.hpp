// SPDX-License-Identifier: MIT
// thread: the engine's two threads, made without libc, and the holds that keep them away: the background thread, which
// returns idle memory (background/decay.hpp), and the control thread, which answers at the control socket
// (observe/socket/server.cpp).
//
// pthread_create cannot be used: it allocates, takes locks of libc under which libc itself calls free(), and makes a
// process wait at its end for the thread. These threads have no libc thread descriptor: they block every signal, may only
// make system calls and access the engine's own data, and end with the process. They run under an ordinary scheduling
// policy and on the processors that the process had when the library was loaded, whatever those of the starting thread.
// Their thread-local data is zero at the start, also variables that begin with another value in threads of libc.
//
// libc's setuid and related functions do not reach a thread that libc does not know. A hold ends the thread before such
// a call and keeps it away until the call is over; the next thread then has the rights of the thread that starts it. If
// such a call was made without a hold, the thread ends at its next wake-up if the capabilities of the process's first
// thread have changed.
//
// Memory (thread_memory.hpp): one mapping: control page, then for each thread a stack and a thread block, all
// between inaccessible pages. A child that does not share its parent's memory finds the control page zeroed
// (MADV_WIPEONFORK), however it was made, and so no thread, no hold and no process id.
//
// States of each thread, in one word that the kernel clears when the thread has left its stack (CLONE_CHILD_CLEARTID):
//   none -> running      by ensure_thread() or release_background_thread()
//   running -> none      by the same call, if the system or a hold prevents the start
//   running -> leaving   by the thread, which then checks for work once more: leaving -> running if there is some
//   leaving -> wanted    by ensure_thread(), which waits for the end and starts the next thread
//   any -> none          by the kernel, also if the thread dies with a vfork child that had started it
// Thread safety: any thread and any signal handler, unless stated otherwise; errno is left alone.
#pragma once

#include <cstdint>

#include "os/own_threads/engine_thread.hpp"
#include "os/sandbox.hpp"

namespace tarn::os {

#pragma GCC visibility push(hidden)

// The work of each thread; defined in background/decay.cpp and observe/socket/server.cpp, so that no pointer to it is stored in
// memory. It returns when the thread is to end.
void background_thread_body();
void control_thread_body();

// True: the thread exists or is being started, and will see what was written before the call. False: there is none,
// because a hold keeps it away, because the system refuses it (retried after a pause, which doubles), or because the
// caller is in a child that shares its parent's memory.
bool ensure_thread(engine_thread which);
inline bool ensure_background_thread() { return ensure_thread(engine_thread::decay); }

// Whether the thread exists and does not leave, for callers to whom ensure_background_thread() costs too much.
bool background_thread_runs();

// Ends the thread's sleep. Called by any thread.
void ring_background_thread();

// Makes the control thread look whether it must end or has something to do, if there is one. Its signal
// control_wake_signal, which is not delivered: the thread polls it as a descriptor (signalfd).
void wake_control_thread();
inline constexpr int control_wake_signal = 16;  // SIGSTKFLT, which no kernel sends

// ---- called by the thread itself ----

// Sleeps until the time is over or ring_background_thread() is called; may return spuriously.
void sleep_in_background_thread(std::int64_t milliseconds);

// A hold asks the thread to end, the program has changed its rights without one, or somebody listens for memory that goes
// (memory_calls.hpp): the thread returns from background_thread_body() as soon as it holds no lock. Called between any two
// steps, without locks: a thread that slept for a lock of the last step runs first.
bool background_thread_must_end();
// The control thread can be woken from now on, until it leaves. Called before it looks whether it must end.
void begin_control_thread();
// Whether the control thread must end, likewise; one or two system calls.
bool control_thread_must_end();

// At its end the thread calls leave, checks for work announced before ensure_thread(), and calls stay if
// there is some. stay returns false if the thread must end all the same; another one is started later.
void leave_thread(engine_thread which);
bool stay_in_thread(engine_thread which);
inline void leave_background_thread() { leave_thread(engine_thread::decay); }
inline bool stay_in_background_thread() { return stay_in_thread(engine_thread::decay); }

// ---- children ----

// Records the process id. Called at load; if a filter might forbid the system call there, as soon as the program is
// known to be allowed threads.
void note_own_process();
// Called when the program has a second thread or has made a child, or when an option demands a thread: no filter from
// before the program's start forbids the engine a thread.
void note_threads_allowed();
// Called by fork's handler in the child, whose control page is zeroed.
void note_forked_child();
// Whether the calling process shares its parent's memory: a thread started here would end with it, and holds are its
// parent's. One system call. Always false in a sandbox, where there is no thread.
bool in_vfork_child();

// ---- holds ----

// Whether the calling thread is in a signal handler that has interrupted a critical section of the engine, or in a fork
// handler while fork holds the locks; defined in engine/fork.cpp.
bool is_above_interrupted_section();

// Ends both threads, waits until the kernel has removed them completely, and keeps new ones from starting until the
// release. Gives up after 50 ms in a signal handler that has interrupted a critical section, for whose lock the thread
// may wait, and after 10 s otherwise: the thread then ends when it gets the lock, even after the release. Cost without
// a thread: three atomic operations.
hold_token hold_background_thread();
// Ends a hold. Starts each thread if no other hold is left and there is work: the thread that a hold ended had some, or
// ensure_thread() was called meanwhile. In a child made between the two calls: does nothing.
void release_background_thread(hold_token token);

// Whether the process has a thread of this id.
bool thread_exists(long process, long thread);
// Waits, at most half a second, until the kernel no longer lists a thread of this process that is about to end.
void await_end_of_thread(long thread);

#pragma GCC visibility pop

}  // namespace tarn::os
