// SPDX-License-Identifier: MIT
// recycler_registry: the list of all recyclers, each thread's list and table of bins, and what happens to them when a
// cycle or a thread ends, and at fork.
//
// Thread safety: all functions may be called by any thread. One lock guards the lists; objects are destroyed without
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recycler/recycler_bin.hpp"
#include "recycler/recycler_core.hpp"

namespace tarn::recycler_registry {

// Null when there is no memory.
tarn_recycler* create(const tarn_recycler_request& request);
// Destroys the idle objects; from then on none is kept. Waits until the recycler is not pinned. Requires: no other
// thread is inside a call.
void close(tarn_recycler* recycler);
// Frees the structure for reuse. Requires: closed.
void free(tarn_recycler* recycler);

// The calling thread's bin, created if needed. Null when the recycler is closed, the thread is about to end, or there
// is no memory.
recycler_bin* bin_of(recycler_core* recycler);

// Takes the spare magazine of some thread's bin; null if there is none.
recycler_magazine* steal(recycler_core* recycler);

// Ends a generation: destroys the older one; with `all` also the younger one. Returns the number of objects destroyed.
std::size_t end_generation(recycler_core* recycler, bool all);
// Ends the generations that are due, or with `all` all generations, of every recycler. Returns after how many
// milliseconds to call again; -1 when no recycler has idle objects.
std::int64_t end_due_generations(std::int64_t now_ms, bool all);

void get_figures(recycler_core* recycler, tarn_recycler_figures& out);

// Walk along all recyclers that are not ending; the returned one is pinned, which keeps it from being closed, and
// next_pinned() unpins it. Null at the end.
recycler_core* first_pinned();
recycler_core* next_pinned(recycler_core* recycler);
template <class Visit>
void for_each(Visit visit) {
  for (recycler_core* r = first_pinned(); r != nullptr; r = next_pinned(r)) visit(*r);
}

// ---- parts of recycler_front ----

// Ends all generations of all recyclers.
void trim_all();
// Empties the calling thread's bins and hands their magazines over.
void thread_ends();
void walk_locks(const os::lock_walk& walk);
// In the only thread of a forked child. The objects in other threads' bins are lost to it.
void after_fork_in_child();

}  // namespace tarn::recycler_registry
