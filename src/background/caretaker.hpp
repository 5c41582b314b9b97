// SPDX-License-Identifier: MIT
// caretaker: a thread that ends the generations of recyclers when they are due, and calls the program's callbacks when
// memory is above the soft limit (background/pressure.hpp). It lives only while objects are idle or callbacks registered.
//
// It is not the engine's background thread: it calls destructors of the program's objects, and callbacks, which need a
// thread of libc with thread-local data and a full stack. With TARN_BACKGROUND=off, or where no thread can be started, threads that
// use recyclers end generations in their slow paths, and nobody calls callbacks.
//
// Thread safety: all functions may be called by any thread.
#pragma once

#include "os/mutex.hpp"

namespace tarn::caretaker {

// Starts or wakes the thread, because an object has become idle. Not with a lock held.
void wake();
// Ends due generations in the calling thread if there is no caretaker thread. Called on slow paths of recyclers,
// without locks.
void run_inline_if_no_thread();

// Makes exit() stop the thread. Called when a recycler is created: exit() runs handlers and static destructors in
// reverse order, so objects constructed before the first recycler, which its objects' destructors may need, are
// destroyed later.
void stop_at_exit();

// Brackets a call that affects the calling thread alone, such as capset, or needs a process of one thread, such as
// unshare: hold() ends the thread and waits for its end, for at most a second as it may be in a destructor of the
// program. No thread starts before release(). Used by the gates.
void hold();
void release();

// Wakes the thread, if there is one, because memory is above the soft limit. Callable inside allocations.
void notice_pressure();

void walk_locks(const os::lock_walk& walk);
void after_fork_in_child();

}  // namespace tarn::caretaker
