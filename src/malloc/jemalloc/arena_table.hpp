// SPDX-License-Identifier: MIT
// arena_table: the arenas by index. Index 0 is the heap of malloc, which all threads share; the program makes the others
// and destroys them. The index of a destroyed arena goes to the next one that is made.
//
// Owner: this layer has one. Thread safety: any thread.
// Invariants, under the lock: arenas_[i]->index == i + 1 for each i < used_; an arena that is not live has no span.
#pragma once

#include <cstddef>

#include "fronts/scopes/scope_core.hpp"
#include "os/mutex.hpp"

namespace tarn::jemalloc {

class arena_table {
 public:
  static constexpr unsigned most = 1024;

  constexpr arena_table() = default;

  // What "arenas.narenas" says: the indices below it belong to an arena that exists, or to a destroyed one.
  unsigned count();
  // Whether the index belongs to an arena that exists.
  bool exists(std::size_t index);
  // Null: the index is 0, or belongs to no arena that exists.
  scope_core* find(std::size_t index);

  // Makes an arena. 0, or EAGAIN: no memory, or there are too many.
  int create(unsigned& index);
  // EFAULT: no such arena, or the index is 0.
  int reset(std::size_t index);
  int destroy(std::size_t index);

  // Sums over the arenas that the program has made.
  arena_bytes bytes();

  void validate_locked() const TARN_REQUIRES(lock_);
  void walk_locks(const os::lock_walk& walk);

 private:
  struct entry {
    scope_core* arena;
    bool is_live;
  };

  os::mutex lock_{os::lock_rank::pools};
  entry entries_[most] TARN_GUARDED_BY(lock_) = {};
  unsigned used_ TARN_GUARDED_BY(lock_) = 0;
};

#pragma GCC visibility push(hidden)
extern constinit arena_table arenas;
#pragma GCC visibility pop

}  // namespace tarn::jemalloc
