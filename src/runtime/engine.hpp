// SPDX-License-Identifier: MIT
// The engine: the one instance of every tier, and each thread's way to its cache.
//
// All of it is constant-initialised: it works before any constructor has run, and nothing of it is ever
// destroyed, so objects of any storage duration may be freed at any time.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/compiler.hpp"
#include "central/central.hpp"
#include "guarded/guarded_blocks.hpp"
#include "pages/first_touch.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"
#include "thread/registry.hpp"
#include "thread/sample_windows.hpp"
#include "thread/thread_cache.hpp"

namespace tarn::engine {

// Hidden, so that they are reached without the global offset table.
#pragma GCC visibility push(hidden)

extern page_map map;
extern metadata_arena metadata;
extern first_touch touch;
extern page_heap heap;
extern central central_tier;
extern cache_budget budget;
extern thread_cache_registry registry;
extern guarded_blocks guards;
extern sample_windows guard_windows;

// Bytes of live large blocks.
extern std::atomic<std::size_t> large_bytes;

// What a thread without a cache has instead: every access misses.
extern thread_cache no_cache;

// The calling thread's cache, or &no_cache.
extern thread_local constinit thread_cache* local_cache;

// The calling thread's cache, made if needed. Null when the thread is about to end, or there is no memory:
// then the caller goes to `central_tier` itself.
thread_cache* attach_thread();

// Gathers all free objects that can be had (the calling thread's, other threads' surplus, depots) into spans,
// and empty spans into the page heap.
void reclaim();

// Has fork hold the engine's locks; the first call counts. Not with a lock held: it may allocate.
void register_fork_handlers();
// What the fork handlers do, around calls that copy the process and run none. By any thread and in signal handlers.
void before_copy();
void after_copy_in_parent();
void after_copy_in_child();
// For fork.
os::mutex& preparation_lock();

#pragma GCC visibility pop

}  // namespace tarn::engine
