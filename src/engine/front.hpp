// SPDX-License-Identifier: MIT
// front: a layer above the engine (typed pools, recyclers, buffer pools, scopes, jemalloc's names) as the engine sees it: the functions by which
// it takes part in decay, the end of threads, fork and memory reclaim, without the engine depending on it.
//
// There are five fronts, each a constant table of functions defined by its layer. The first use of a layer attaches
// its front for good. The only writable data is whether each one is attached: an attacker who writes there
// can cause no call other than of these functions.
// Invariants: fronts[i]->order == i; a front that is attached is not null.
// Thread safety: attach() may be called by any thread; the functions as their comments say.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/metrics.hpp"
#include "os/mutex.hpp"

namespace tarn::engine {

struct front {
  // The fronts, in the order of the ranks of their locks.
  enum lock_order : std::uint8_t { recyclers, buffers, pools, scopes, jemalloc, count };

  lock_order order;

  static void nothing() {}
  static void no_locks(const os::lock_walk&) {}

  // Runs one period of decay.
  void (*age)() = nothing;
  // Whether age() could give something back, or errands wait.
  bool (*has_work)() = [] { return false; };
  // Moves free objects into spans, and spare spans into the page heap. `reclaim_walks`: in a time in proportion to the
  // instances, not to what is idle.
  void (*reclaim)() = nothing;
  bool reclaim_walks = false;
  // Gives back, on the program's request, memory that reclaim() does not touch because code of the program must run.
  void (*trim)() = nothing;
  // The calling thread has adopted the cache of a thread that ended unnoticed.
  void (*thread_adopts)() = nothing;
  // The calling thread ends; it may still free objects afterwards.
  void (*thread_ends)() = nothing;
  // Visits its locks, for fork: those of ranks caretaker to depot. Also called while the front is not attached.
  void (*walk_locks)(const os::lock_walk&) = no_locks;
  // In the child, whose only thread calls it while fork holds all locks; it may lock them again.
  void (*after_fork_in_child)() = nothing;
  // Does the work that was deferred to the background thread (decay::run_errands_soon()).
  void (*run_errands)() = nothing;
  // Every thread stops at its next allocation of each class that one of its bins serves, and draws the distance to the
  // next sample of the heap profile anew. False: as thread_cache::expire_countdowns().
  bool (*expire_countdowns)() = [] { return true; };
  // Its figures by name; null: none.
  const metric_group* metrics = nullptr;
  // In a thread that may run code of the program, such as the caretaker (background/caretaker.hpp): runs what is due by
  // `now_ms`, or with `all` everything. Returns after how many milliseconds to call again; -1: nothing is left.
  std::int64_t (*run_due)(std::int64_t now_ms, bool all) = [](std::int64_t, bool) {
    return std::int64_t{-1};
  };
  // Memory is short: a thread of the front's own may run code of the program that frees some. Called inside allocations;
  // wakes that thread and does nothing else.
  void (*pressed)() = nothing;
};

#pragma GCC visibility push(hidden)

// Defined by the layers above.
extern const front recycler_front;
extern const front buffer_front;
extern const front pool_front;
extern const front scope_front;
extern const front jemalloc_front;

// Indexed by front::lock_order. Null if the program is linked with the archive and does not use the layer.
extern const front* const fronts[front::count];
extern constinit std::atomic<bool> attached[front::count];

#pragma GCC visibility pop

inline void validate_fronts(const front* const* tables, const std::atomic<bool>* are_attached) {
  for (unsigned i = 0; i < front::count; ++i) {
    TARN_INVARIANT("front", &tables[i], tables[i] == nullptr || tables[i]->order == i);
    TARN_INVARIANT("front", &tables[i],
                   tables[i] != nullptr || !are_attached[i].load(std::memory_order_relaxed));
  }
}

// Does nothing if the front is attached already. The caller's reference to the table also makes the linker take it from
// the archive.
inline void attach(const front& f) {
  // release: partner of the acquire in for_each_front().
  if (!attached[f.order].load(std::memory_order_relaxed))
    attached[f.order].store(true, std::memory_order_release);
  if (os::is_check_due()) validate_fronts(fronts, attached);
}

template <class Visit>
void for_each_front(Visit visit) {
  for (unsigned i = 0; i < front::count; ++i) {
    // acquire: partner of the release in attach().
    if (fronts[i] != nullptr && attached[i].load(std::memory_order_acquire)) visit(*fronts[i]);
  }
}

}  // namespace tarn::engine
