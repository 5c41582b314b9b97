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
// body() has returned and background_thread_gone() is true. False when the system refuses.
bool start_background_thread(thread_function body);

// True if no thread was ever started here, or the last one has left its stack.
bool background_thread_gone();

// In a forked child: the thread does not exist there.
void forget_background_thread();

}  // namespace tarn::os
