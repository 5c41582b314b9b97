// SPDX-License-Identifier: MIT
// extension: how what is built on the engine, such as typed pools, takes part in its life without the engine
// knowing it: decay, the end of threads, fork, gathering of memory.
//
// Extensions are registered by their first use, and stay, in the order of the ranks of their locks. Thread safety: attach() by any thread; the functions
// are called as their comments say.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"

namespace tarn::engine {

struct extension {
  // Those whose locks rank lower come first.
  enum class place : std::uint8_t { recyclers, buffers, pools };
  place order;
  // One period of decay.
  void (*age)();
  // Something that age() could give back.
  bool (*has_work)();
  // Gathers free objects into spans, and empty spans into the page heap.
  void (*reclaim)();
  // Gives back on the program's request what reclaim() does not touch, because the program's code takes part in it.
  void (*trim)();
  // The calling thread has taken over the cache of a thread that ended without telling us.
  void (*thread_adopts)();
  // The calling thread ends; it may still free objects afterwards.
  void (*thread_ends)();
  // Its locks, for fork: those that rank from lock_rank::caretaker to lock_rank::depot, and those below the page heap's.
  void (*visit_upper_locks)(void (*visit)(os::mutex&));
  void (*visit_lower_locks)(void (*visit)(os::mutex&));
  // All locks are free again.
  void (*after_fork_in_child)();
  // What has been put off for the background thread (decay::run_errands_soon()); null: nothing ever is.
  void (*run_errands)() = nullptr;

  std::atomic<const extension*> next{nullptr};
  bool attached = false;
};

#pragma GCC visibility push(hidden)

extern constinit std::atomic<const extension*> extensions;

// Does nothing if it is there already. Not with a lock held.
void attach(extension& e);
// Held by fork, during which none is attached.
os::mutex& attach_lock();

#pragma GCC visibility pop

template <class Visit>
void for_each_extension(Visit visit) {
  // acquire: partner of the release in attach().
  for (const extension* e = extensions.load(std::memory_order_acquire); e != nullptr;
       e = e->next.load(std::memory_order_acquire)) {
    visit(*e);
  }
}

}  // namespace tarn::engine
