// SPDX-License-Identifier: MIT
// The engine's one background thread, made without libc.
//
// pthread_create cannot be used: it takes locks of libc under which libc itself calls free, allocates, and
// makes a process wait at its end for the thread. This thread has no libc thread descriptor: it blocks every
// signal, may only make system calls and touch the engine's own data, and ends with the process.
#pragma once

namespace tarn::os {

using thread_function = void (*)();

// Starts `body` on a stack of its own. One such thread at a time: the caller starts the next one only after
// body() has returned and wait_for_background_thread() too. False when the system refuses.
bool start_background_thread(thread_function body);

// Waits until no thread is on that stack any more. Only for a thread that is about to end.
void wait_for_background_thread();

// In a forked child: the thread does not exist there.
void forget_background_thread();

}  // namespace tarn::os
