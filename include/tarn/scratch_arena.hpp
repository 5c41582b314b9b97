// SPDX-License-Identifier: MIT
// scratch_arena: the calling thread's arena for memory that a function needs until it returns.
//
//     tarn::scratch_arena scratch;                 // rewound at the end of the scope
//     auto* rows = scratch->allocate_array<row>(n);
//
// A function that builds its result in an arena that the caller passed must not take its scratch memory from the same
// arena: the caller may have passed its own scratch arena, and the result would end with the function's scope. So each
// thread has two scratch arenas, and such a function names the arena that it must not get:
//
//     tree* parse(std::string_view text, tarn::arena& result) {
//       tarn::scratch_arena scratch(result);       // the second one, if `result` is the thread's first
//
// Do not use it for memory that is needed after the scope, and do not pass it to another thread.
//
// Thread safety: each thread has its own. A scope must end in the thread in which it began; scopes must nest.
// Failure: construction cannot fail; allocations fail as in tarn/arena.hpp. Cost: a few instructions to begin and to
// end.
// Memory: after the outermost scope, each of the two arenas keeps at most twice what recent scopes used, or 64 KiB if
// that is more. A thread's end frees all. Usable also in destructors of thread_local and static objects: from the
// thread's end on each outermost scope frees all its memory.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <new>

#include "tarn/arena.hpp"

namespace tarn {
inline namespace TARN_ABI {

namespace detail {

inline namespace TARN_POOL_MODE {

// Storage of an arena whose destructor never runs, so that it can be used before and after all objects with
// destructors.
struct scratch_slot {
  alignas(arena) std::byte memory[sizeof(arena)];
  std::size_t depth;  // open scopes

  arena& get() noexcept { return *std::launder(reinterpret_cast<arena*>(memory)); }
};

struct scratch_slots {
  scratch_slot slots[2];
  bool made;    // the slots hold arenas
  bool ending;  // the thread's objects are being destroyed: no memory may be kept after a scope
};

inline constinit thread_local scratch_slots local_scratch{};

// Frees the thread's scratch arenas when the thread ends. Its destructor runs among those of the thread's other
// objects, in an order that is not known: an arena that is in use then, or is used later, is released at the end of
// its scope.
struct scratch_janitor {
  // A use of the thread_local object, which constructs it and so registers its destructor.
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

// The thread's first scratch arena that is not `other`.
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
    if (slot_.depth != 1) {
      memory.rewind(begin_);
    } else if (detail::local_scratch.ending) {
      memory.release();
    } else {
      memory.reset();
    }
    --slot_.depth;  // now, because scopes in destructors of the arena's objects are inner ones
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

}  // namespace TARN_ABI
}  // namespace tarn
