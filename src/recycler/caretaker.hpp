// SPDX-License-Identifier: MIT
// caretaker: ends the generations of recyclers when they are due, in a thread that lives only while something waits.
//
// It is not the engine's thread: what it calls, the destructors of the program's objects, needs a thread of libc's with
// thread-local data and a stack. With TARN_BACKGROUND=off, or where no thread can be started, threads that get and give
// do its work when they come by.
//
// Thread safety: any thread.
#pragma once

#include "os/mutex.hpp"

namespace tarn::caretaker {

// Something has come to wait. Not with a lock held.
void wake();
// By threads that get and give, on their slow paths: does what no thread of its own does.
void lend_a_hand();

// From the program's end on no generation ends in the background. Called by whoever makes a recycler: what was
// constructed before is destroyed after that, and so what its objects' destructors need is still there.
void stop_at_exit();

// Around a call that concerns the calling thread alone, such as capset, or that wants a process of one thread, such as
// unshare: ends the thread and waits for it, for a second at most since it may be in a destructor of the program's. Until
// release none starts. By the gates.
void hold();
void release();

os::mutex& fork_lock();
void after_fork_in_child();

}  // namespace tarn::caretaker
