// SPDX-License-Identifier: MIT
// extension: the interface by which layers above the engine (typed pools, recyclers, buffer pools) take part in decay,
// the end of threads, fork and memory reclaim, without the engine depending on them.
//
// There are three extensions, each a constant table of functions defined by its layer. The first use of a layer
// attaches its extension for good. The only writable data is whether each one is attached: an attacker who writes there
// can cause no call other than of these functions.
// Thread safety: attach() may be called by any thread; the functions as their comments say.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"

namespace tarn::engine {

struct extension {
  // The extensions, in the order of the ranks of their locks.
  enum lock_order : std::uint8_t { recyclers, buffers, pools, count };

  static void nothing() {}
  static void no_locks(const os::lock_walk&) {}

  // Runs one period of decay.
  void (*age)() = nothing;
  // Whether age() could give something back, or errands wait.
  bool (*has_work)() = [] { return false; };
  // Moves free objects into spans, and spare spans into the page heap.
  void (*reclaim)() = nothing;
  // Gives back, on the program's request, memory that reclaim() does not touch because code of the program must run.
  void (*trim)() = nothing;
  // The calling thread has adopted the cache of a thread that ended unnoticed.
  void (*thread_adopts)() = nothing;
  // The calling thread ends; it may still free objects afterwards.
  void (*thread_ends)() = nothing;
  // Visits its locks, for fork: `upper` those of ranks caretaker to depot, `lower` those taken after the page heap's.
  // Also called while the extension is not attached.
  void (*walk_upper_locks)(const os::lock_walk&) = no_locks;
  void (*walk_lower_locks)(const os::lock_walk&) = no_locks;
  // In the child, whose only thread calls it while fork holds all locks; it may lock them again.
  void (*after_fork_in_child)() = nothing;
  // Does the work that was deferred to the background thread (decay::run_errands_soon()).
  void (*run_errands)() = nothing;
};

#pragma GCC visibility push(hidden)

// Defined by the layers above.
extern const extension recycler_extension;
extern const extension buffer_extension;
extern const extension pool_extension;

// Indexed by extension::lock_order. Null if the program is linked with the archive and does not use the layer.
extern const extension* const extensions[extension::count];
extern constinit std::atomic<bool> attached[extension::count];

#pragma GCC visibility pop

// Does nothing if the extension is attached already.
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
