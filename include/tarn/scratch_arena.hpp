// SPDX-License-Identifier: MIT
// scratch_arena: the calling thread's arena for what a function needs until it returns.
//
//     tarn::scratch_arena scratch;                 // rewound at the end of the scope
//     auto* rows = scratch->allocate_array<row>(n);
//
// A function that builds its result in an arena which it was given must not take its scratch memory from the same
// one: the caller may have passed its own scratch arena, and the result would end with the function's scope. So there
// are two per thread, and such a function names the one that it must not get:
//
//     tree* parse(std::string_view text, tarn::arena& result) {
//       tarn::scratch_arena scratch(result);       // the other one, if `result` is the thread's first
//
// Do not keep pointers into it beyond the scope, and do not pass it to another thread.
//
// Thread safety: each thread has its own. A scope must end in the thread, and in the order, that it began in.
// Failure: construction has none; the arena's are its own. Cost: a few instructions to begin and to end.
// Memory: after the outermost scope, each of the two keeps at most twice what recent scopes used, or 64 KiB. All goes
// back when the thread ends. Usable then, too, in destructors of thread_local and static objects: from there on each
// outermost scope gives all its memory back.
#pragma once

#include <cstddef>
#include <new>

#include "tarn/arena.hpp"

namespace tarn {

namespace detail {

inline namespace TARN_POOL_MODE {

// An arena without a destructor of its own, so that it is there before and after everything that has one.
struct scratch_slot {
  alignas(arena) std::byte memory[sizeof(arena)];
  std::size_t depth;  // scopes now

  arena& get() noexcept { return *std::launder(reinterpret_cast<arena*>(memory)); }
};

struct scratch_slots {
  scratch_slot slots[2];
  bool made;    // slots hold arenas
  bool ending;  // the thread's objects are being destroyed: nothing may be kept
};

inline constinit thread_local scratch_slots local_scratch{};

// Its destructor runs with those of the thread's other objects, in no useful order among them: what is in use then, or
// is used later, goes back at the end of its scope.
struct scratch_janitor {
  // Makes the object that is destroyed later.
  void hire() const noexcept {}
  ~scratch_janitor() {
    local_scratch.ending = true;
    for (scratch_slot& slot : local_scratch.slots) {
      if (slot.depth == 0) slot.get().release();
    }
  }
};

TARN_DETAIL_COLD inline void make_scratch() noexcept {
  for (scratch_slot& slot : local_scratch.slots) ::new (static_cast<void*>(slot.memory)) arena;
  local_scratch.made = true;
  static thread_local const scratch_janitor janitor;
  janitor.hire();
}

inline scratch_slot& scratch_beside(const arena* other) noexcept {
  if (TARN_DETAIL_UNLIKELY(!local_scratch.made)) make_scratch();
  scratch_slot* const slots = local_scratch.slots;
  return slots[other == &slots[0].get() ? 1 : 0];
}

}  // namespace TARN_POOL_MODE

}  // namespace detail

inline namespace TARN_POOL_MODE {

class scratch_arena {
 public:
  scratch_arena() noexcept : scratch_arena(nullptr) {}
  // The thread's scratch arena that is not `conflict`.
  explicit scratch_arena(const arena& conflict) noexcept : scratch_arena(&conflict) {}
  scratch_arena(const scratch_arena&) = delete;
  scratch_arena& operator=(const scratch_arena&) = delete;
  ~scratch_arena() {
    arena& memory = slot_.get();
    if (--slot_.depth != 0) {
      memory.rewind(begin_);
    } else if (detail::local_scratch.ending) {
      memory.release();
    } else {
      memory.reset();
    }
  }

  [[nodiscard]] arena& operator*() const noexcept { return slot_.get(); }
  [[nodiscard]] arena* operator->() const noexcept { return &slot_.get(); }

 private:
  explicit scratch_arena(const arena* conflict) noexcept
      : slot_(detail::scratch_beside(conflict)), begin_(slot_.get().mark()) {
    ++slot_.depth;
  }

  detail::scratch_slot& slot_;
  arena::marker begin_;
};

}  // namespace TARN_POOL_MODE

}  // namespace tarn
