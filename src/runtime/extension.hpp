// SPDX-License-Identifier: MIT
// extension: how what is built on the engine, such as typed pools, takes part in its life without the engine
// knowing it: decay, the end of threads, fork, gathering of memory.
//
// There are three, each a constant table of functions that its layer defines. They are attached by their first use, and
// stay. All that is writable is whether one is attached: whoever writes there calls nothing but these functions.
// Thread safety: attach() by any thread; the functions are called as their comments say.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"

namespace tarn::engine {

struct extension {
  // In the order of the ranks of their locks.
  enum lock_order : std::uint8_t { recyclers, buffers, pools, count };

  static void nothing() {}
  static void no_locks(const os::lock_walk&) {}

  // One period of decay.
  void (*age)() = nothing;
  // Something that age() could give back.
  bool (*has_work)() = [] { return false; };
  // Gathers free objects into spans, and empty spans into the page heap.
  void (*reclaim)() = nothing;
  // Gives back on the program's request what reclaim() does not touch, because the program's code takes part in it.
  void (*trim)() = nothing;
  // The calling thread has taken over the cache of a thread that ended without telling us.
  void (*thread_adopts)() = nothing;
  // The calling thread ends; it may still free objects afterwards.
  void (*thread_ends)() = nothing;
  // Its locks, for fork: those that rank from lock_rank::caretaker to lock_rank::depot, and those below the page heap's.
  // Also called while it is not attached.
  void (*walk_upper_locks)(const os::lock_walk&) = no_locks;
  void (*walk_lower_locks)(const os::lock_walk&) = no_locks;
  // The fork of the calling thread, the only one, holds all locks; this may take them again.
  void (*after_fork_in_child)() = nothing;
  // What has been put off for the background thread (decay::run_errands_soon()).
  void (*run_errands)() = nothing;
};

#pragma GCC visibility push(hidden)

// Of the layers above.
extern const extension recycler_extension;
extern const extension buffer_extension;
extern const extension pool_extension;

// By extension::lock_order. Null in a program that is linked with the archive and does not use the layer.
extern const extension* const extensions[extension::count];
extern constinit std::atomic<bool> attached[extension::count];

#pragma GCC visibility pop

// Does nothing if it is there already.
inline void attach(extension::lock_order which) {
  // release: partner of the acquire in for_each_extension().
  if (!attached[which].load(std::memory_order_relaxed))
    attached[which].store(true, std::memory_order_release);
}

template <class Visit>
void for_each_extension(Visit visit) {
  for (unsigned i = 0; i < extension::count; ++i) {
    // acquire: partner of the release in attach().
    if (extensions[i] != nullptr && attached[i].load(std::memory_order_acquire)) visit(*extensions[i]);
  }
}

}  // namespace tarn::engine
