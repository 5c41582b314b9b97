// SPDX-License-Identifier: MIT
// engine: its preparation at load, the threads that use it, and what concerns all its tiers (instance.hpp).
//
// Thread safety: any thread.
#pragma once

#include "engine/instance.hpp"
#include "os/mutex.hpp"

namespace tarn::engine {

#pragma GCC visibility push(hidden)

// The calling thread's cache, created if necessary. Null: the thread is to use the processors' caches (processor_user.in_use),
// is about to end, or there is no memory; the caller may then use `central_tier` directly. `own`: it is to have a cache
// of its own, by which the thread can be told from others.
thread_cache* attach_thread(bool own = false);

// Called by a thread that libc does not know (os/own_threads/thread.hpp) before it calls functions that look at the caller's cache: it
// has none, and gets none.
void begin_bare_thread();

// All that the calling thread has allocated and freed. Costs a walk over its size classes.
traffic traffic_of_thread();
// Stores it in *noted_traffic. Requires: that is not null.
void note_traffic();

// Registers the fork handlers; only the first call has an effect. Call without a lock: it may allocate.
void register_fork_handlers();
// The fork handlers' work, for system calls that copy the process without running handlers. Any thread, also in signal
// handlers.
void before_copy();
void after_copy_in_parent();
void after_copy_in_child();
// Before a call that makes a child which shares this thread's memory and thread pointer. Async-signal-safe.
void before_vfork();
// For fork only. threads_attached(): the threads that have begun to attach, ever.
os::mutex& preparation_lock();
std::size_t threads_attached();

#pragma GCC visibility pop

}  // namespace tarn::engine
