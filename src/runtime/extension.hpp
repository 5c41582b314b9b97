// SPDX-License-Identifier: MIT
// extension: how what is built on the engine, such as typed pools, takes part in its life without the engine
// knowing it: decay, the end of threads, fork, gathering of memory.
//
// Extensions are registered once, by their first use, and stay. Thread safety: attach() by any thread; the functions
// are called as their comments say.
#pragma once

#include <atomic>
#include <cstddef>

#include "os/mutex.hpp"

namespace tarn::engine {

struct extension {
  // One period of decay.
  void (*age)();
  // Something that age() could give back.
  bool (*has_work)();
  // Gathers free objects into spans, and empty spans into the page heap.
  void (*reclaim)();
  // The calling thread has taken over the cache of a thread that ended without telling us.
  void (*thread_adopts)();
  // The calling thread ends; it may still free objects afterwards.
  void (*thread_ends)();
  // Its locks, for fork: those that rank from lock_rank::pools to lock_rank::depot, and those below the page heap's.
  void (*visit_upper_locks)(void (*visit)(os::mutex&));
  void (*visit_lower_locks)(void (*visit)(os::mutex&));
  // All locks are free again.
  void (*after_fork_in_child)();
  const extension* next = nullptr;
  // What has been put off for the background thread (decay::run_errands_soon()); null: nothing ever is.
  void (*run_errands)() = nullptr;
};

#pragma GCC visibility push(hidden)

extern constinit std::atomic<const extension*> extensions;

// Requires: not attached yet.
void attach(extension& e);

#pragma GCC visibility pop

// Newer ones come first: from one on, the list does not change any more.
inline const extension* first_extension() {
  // acquire: partner of the release in attach().
  return extensions.load(std::memory_order_acquire);
}
template <class Visit>
void for_each_extension(Visit visit) {
  for (const extension* e = first_extension(); e != nullptr; e = e->next) visit(*e);
}

}  // namespace tarn::engine
