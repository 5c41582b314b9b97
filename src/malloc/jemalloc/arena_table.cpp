// SPDX-License-Identifier: MIT
#include "malloc/jemalloc/arena_table.hpp"

#include <cerrno>

#include "engine/engine.hpp"
#include "engine/front.hpp"
#include "fronts/scopes/scope_registry.hpp"
#include "malloc/jemalloc/identity.hpp"

namespace tarn::jemalloc {

constinit arena_table arenas;

unsigned arena_table::count() {
  os::lock_guard guard(lock_, *this);
  return automatic_arenas + used_;
}

bool arena_table::exists(std::size_t index) { return index == 0 || find(index) != nullptr; }

scope_core* arena_table::find(std::size_t index) {
  os::lock_guard guard(lock_, *this);
  if (index < automatic_arenas || index - automatic_arenas >= used_) return nullptr;
  const entry& p = entries_[index - automatic_arenas];
  return p.is_live ? p.arena : nullptr;
}

int arena_table::create(unsigned& index) {
  engine::attach(engine::jemalloc_front);
  // Before the lock, as memory may come from the system. An arena that is not needed serves the next call.
  scope_core* const arena = scope_registry::take_core();
  if (arena == nullptr) return EAGAIN;
  bool is_needed = false;
  int result = 0;
  {
    os::lock_guard guard(lock_, *this);
    unsigned i = 0;
    while (i < used_ && entries_[i].is_live) ++i;
    if (i == most) {
      result = EAGAIN;
    } else {
      is_needed = i == used_;
      if (is_needed) {
        arena->index = i + automatic_arenas;
        entries_[used_++].arena = arena;
      }
      entries_[i].is_live = true;
      index = i + automatic_arenas;
    }
  }
  if (!is_needed) scope_registry::keep_core(arena);
  return result;
}

int arena_table::reset(std::size_t index) {
  scope_core* const arena = find(index);
  if (arena == nullptr) return EFAULT;
  arena->reset();
  return 0;
}

int arena_table::destroy(std::size_t index) {
  const int result = reset(index);
  if (result != 0) return result;
  os::lock_guard guard(lock_, *this);
  entries_[index - automatic_arenas].is_live = false;
  return 0;
}

arena_bytes arena_table::bytes() {
  arena_bytes sum{};
  const unsigned end = count();
  for (unsigned i = automatic_arenas; i < end; ++i) {
    scope_core* const arena = find(i);
    if (arena == nullptr) continue;
    const arena_bytes of_arena = arena->bytes();
    sum.small += of_arena.small;
    sum.large += of_arena.large;
    sum.spans += of_arena.spans;
  }
  return sum;
}

void arena_table::validate_locked() const {
  for (unsigned i = 0; i < used_; ++i) {
    TARN_INVARIANT("arena_table", this, entries_[i].arena->index == i + automatic_arenas);
  }
}

// The arenas' own locks are those of scopes.
void arena_table::walk_locks(const os::lock_walk& walk) { walk.visit(lock_); }

}  // namespace tarn::jemalloc
