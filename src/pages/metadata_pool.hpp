// SPDX-License-Identifier: MIT
// metadata_pool: structures of one size for the engine's own use, which come and go.
//
// Free structures are in two lists. `loose_` has single ones, the last to come back first; they link each other by their
// first word. `runs_` describes runs of adjacent ones whose memory is untouched or has gone back to the system.
//
// New structures come from the arena one by one, and then in runs that grow with the pool, so that neighbours are of the
// same pool. age() makes runs of loose structures: what no request has needed for a period goes back.
//
// allocate() does not zero a structure. While it is free, its first word is overwritten by the link, and its memory may have
// gone back, so that all of it reads as zeros. Code that follows a stale pointer to a structure must bear both: zeros must
// mean a structure that belongs to nobody.
//
// age() links anew what it does not give back, which would copy all pages with loose structures in a forked child. So a child
// leaves what it has inherited alone until it has as many loose structures beyond that as it takes to age any.
//
// Thread safety: any thread; the lock is not held across a system call.
// Invariants (validate_locked()): loose_count_ is the length of loose_; lowest_ <= loose_count_; no run is empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"
#include "pages/metadata_arena.hpp"

namespace tarn {

class metadata_pool {
 public:
  constexpr metadata_pool(std::size_t bytes, std::size_t alignment)
      : bytes_(align_up(bytes, alignment)), alignment_(alignment) {}

  // Null: no memory.
  void* allocate(metadata_arena& arena);
  void deallocate(void* structure);

  // A period of decay: gives back the memory of structures that were free all through it.
  void age(metadata_arena& arena);
  // Whether age() may find something, now or in the next period.
  [[nodiscard]] bool has_work();
  // In a forked child: what another thread was giving back is here as it was. (If the thread's own age() was interrupted by
  // the handler that forks, it goes on.)
  void forget_holds();

  void validate_locked() const TARN_REQUIRES(lock_);
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }

 private:
  friend class metadata_pool_test_access;

  struct link {
    link* next;
  };
  // Adjacent free structures; a request takes the last one.
  struct run {
    run* next;
    std::uintptr_t start;
    std::size_t count;
    bool is_counted;  // in the arena's used(); else they become so when they are taken
  };
  // Addresses of held structures in ascending order, in memory that is borrowed from the arena.
  struct sorted {
    const std::uintptr_t* addresses;
    std::size_t next;
    std::size_t count;
  };

  void* take_locked(bool& is_counted) TARN_REQUIRES(lock_);
  void push_loose_locked(void* structure) TARN_REQUIRES(lock_);
  run* new_run_locked(std::uintptr_t start, std::size_t count, bool is_counted) TARN_REQUIRES(lock_);
  bool ensure_spare_runs(metadata_arena& arena);
  bool make_runs_locked() TARN_REQUIRES(lock_);
  bool sort_held(metadata_arena& arena, std::size_t count);
  void end_aging_locked() TARN_REQUIRES(lock_);
  std::size_t hold_idle();
  void give_back(metadata_arena& arena);

  std::size_t bytes_;
  std::size_t alignment_;
  os::mutex lock_{os::lock_rank::span_metadata};
  link* loose_ TARN_GUARDED_BY(lock_) = nullptr;
  run* runs_ TARN_GUARDED_BY(lock_) = nullptr;
  run* spare_runs_ TARN_GUARDED_BY(lock_) = nullptr;  // not in use
  std::size_t loose_count_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t lowest_ TARN_GUARDED_BY(lock_) = 0;  // loose_count_ since the last period
  std::size_t inherited_ TARN_GUARDED_BY(lock_) =
      0;  // of loose_count_, at the fork; 0: since then age() took all
  std::size_t obtained_ TARN_GUARDED_BY(lock_) = 0;  // from the arena
  // Something has come back since age() last looked at all.
  bool has_returns_ TARN_GUARDED_BY(lock_) = false;
  // While a thread is in age(): what it has taken, by its links and then by its addresses, and runs whose memory it gives
  // back. A child that is forked meanwhile finds all structures.
  void* aging_ TARN_GUARDED_BY(lock_) = nullptr;  // that thread's pointer
  link* held_ TARN_GUARDED_BY(lock_) = nullptr;
  sorted sorted_ TARN_GUARDED_BY(lock_) = {};
  run* going_ TARN_GUARDED_BY(lock_) = nullptr;
};

// Pools for structures of several sizes.
template <std::size_t count>
struct metadata_pools {
  metadata_pool pools[count];

  // As metadata_pool's.
  void age(metadata_arena& arena) {
    for (metadata_pool& pool : pools) pool.age(arena);
  }
  [[nodiscard]] bool has_work() {
    return std::any_of(pools, pools + count, [](metadata_pool& pool) { return pool.has_work(); });
  }
  void forget_holds() {
    for (metadata_pool& pool : pools) pool.forget_holds();
  }
  void walk_locks(const os::lock_walk& walk) {
    for (metadata_pool& pool : pools) walk.visit(pool.lock());
  }
};

}  // namespace tarn
