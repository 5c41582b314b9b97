// SPDX-License-Identifier: MIT
// arena: memory for objects that end together, allocated by moving a cursor (region-based allocation; Hanson, "Fast
// Allocation and Deallocation of Memory Based on Object Lifetimes", Software: Practice and Experience, 1990).
//
// Use it for what one request, one frame, one parse or one compilation unit builds up and drops as a whole. Do not use
// it when single objects must be freed while others stay: memory is freed only by rewind(), reset(), release() or the
// arena's destructor. An arena that lives as long as a service and is never reset is a leak.
//
// Memory comes in blocks from the engine's page heap: the first has 8 KiB, each further one as many bytes as the arena
// already has, but at most 1 MiB; requests above half of that get pages of their own. A request that does not fit at
// the end of a block leaves that end unused until the arena is rewound; the loss is smaller than the request.
//
// Destructors: an object of create() or create_array() whose type has a non-trivial destructor is destroyed, newest
// first, when its memory is freed: by rewind(), reset(), release() or the arena's destructor. That takes 16 bytes more
// per object; a trivially destructible type pays nothing. create_without_destructor() is for objects that own nothing
// outside the arena.
//
// Thread safety: none; calls must not overlap. Arena and objects may move to another thread as a whole.
// Failure: std::bad_alloc, or null from the try_ forms; nothing allocated before is affected. Without exceptions, the
// process ends instead of the throw.
// Cost: about seven instructions per allocation when size and alignment are constants; a new block takes a lock.
// AddressSanitizer reports accesses to memory of the arena that is not allocated. With TARN_CHECKED_POOLS, memory that
// is rewound is filled with 0xdd, and a rewind to a marker that is no longer valid ends the process with a message.
// Units: all sizes are in bytes.
#pragma once

#include "tarn/detail/abi.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tarn/detail/arena_core.hpp"
#include "tarn/detail/config.hpp"
#include "tarn/detail/construct.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN

TARN_POOLS_BEGIN

class arena {
 public:
  // A position of the arena to which rewind() can return.
  class marker {
    friend class arena;
    explicit marker(const detail::arena_marker& place) noexcept : place_(place) {}
    detail::arena_marker place_;
  };

  // Takes no memory yet.
  constexpr arena() noexcept = default;
  // Uses the buffer before it takes any pages, and again after every reset. Requires: the buffer outlives the arena,
  // and any arena that this one is moved to. The arena keeps 16 bytes of the buffer for itself; a smaller buffer is not
  // used.
  arena(void* buffer, std::size_t bytes) noexcept { core_.adopt_buffer(buffer, bytes); }
  // Movable, so that a result can carry the memory that it lies in: all pointers and markers stay valid, and belong to
  // the new arena. The old arena becomes empty, as if just constructed. An arena_resource keeps referring to the old
  // arena.
  arena(arena&& other) noexcept : core_(std::exchange(other.core_, {})) {}
  arena& operator=(arena&& other) noexcept {
    if (this != &other) {
      core_.end();
      core_ = std::exchange(other.core_, {});
    }
    return *this;
  }
  arena(const arena&) = delete;  // the objects lie in one arena: std::move(arena), or pass a reference
  arena& operator=(const arena&) = delete;
  // As release(). The buffer, if one was given, may be used by the caller again.
  ~arena() { core_.end(); }

  // ---- memory ----

  // Requires: alignment is a power of two. A request of 0 bytes gives a pointer that is not null but need not be
  // unique.
  [[nodiscard]] TARN_DETAIL_INLINE void* allocate(std::size_t bytes,
                                                  std::size_t alignment = alignof(std::max_align_t)) {
    return core_.allocate_or_throw(bytes, alignment);
  }
  // Null when there is no memory.
  [[nodiscard]] TARN_DETAIL_INLINE void* try_allocate(
      std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) noexcept {
    return core_.allocate(bytes, alignment);
  }
  // Frees the memory if it is the newest allocation, and does nothing otherwise. Requires: from allocate() of this
  // arena, with the same size.
  TARN_DETAIL_INLINE void deallocate(void* memory, std::size_t bytes) noexcept {
    core_.take_back(memory, bytes);
  }

  // Memory for `count` objects; no constructor runs. Throws std::bad_alloc also when their size overflows.
  template <class T>
  [[nodiscard]] TARN_DETAIL_INLINE T* allocate_array(std::size_t count) {
    if (TARN_DETAIL_UNLIKELY(count > detail::most_request / sizeof(T))) detail::throw_bad_alloc();
    return static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  }
  // A copy of the text in the arena, without a terminating null byte.
  [[nodiscard]] std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* const memory = allocate_array<char>(text.size());
    std::memcpy(memory, text.data(), text.size());
    return {memory, text.size()};
  }

  // ---- objects ----

  // A new T, whose destructor runs when its memory is freed. Throws std::bad_alloc, and what the constructor throws; in
  // that case no destructor will run, and the memory stays allocated until the arena is rewound.
  template <class T, class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* create(Args&&... args) {
    static_assert(!std::is_array_v<T>, "tarn: for an array create_array<T>(count)");
    if constexpr (std::is_array_v<T> || !detail::require_creatable<T>()) {
      return nullptr;
    } else if constexpr (std::is_trivially_destructible_v<T>) {
      return create_without_destructor<T>(std::forward<Args>(args)...);
    } else {
      using layout = owned<T, detail::arena_cleanup>;
      void* const memory = allocate(layout::offset + sizeof(T), layout::alignment);
      T* const object = detail::construct<T>(layout::first_in(memory), std::forward<Args>(args)...);
      core_.cleanups = ::new (memory) detail::arena_cleanup{core_.cleanups, layout::end};
      return object;
    }
  }
  // A new T, whose destructor never runs.
  template <class T, class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* create_without_destructor(Args&&... args) {
    return detail::construct<T>(allocate(sizeof(T), alignof(T)), std::forward<Args>(args)...);
  }
  // As create() without arguments, but T is default-initialised, as by std::make_unique_for_overwrite: members without
  // constructor and initialiser are written by the caller, not by the arena.
  template <class T>
  [[nodiscard]] TARN_DETAIL_INLINE T* create_for_overwrite() {
    return create<T>(detail::for_overwrite{});
  }
  // `count` value-initialised objects; destructors run as with create(), last element first.
  template <class T>
  [[nodiscard]] std::span<T> create_array(std::size_t count) {
    if constexpr (detail::require_creatable<T>()) {
      return create_array_by(count, std::uninitialized_value_construct_n<T*, std::size_t>);
    }
    return {};
  }
  // `count` default-initialised objects: see create_for_overwrite().
  template <class T>
  [[nodiscard]] std::span<T> create_array_for_overwrite(std::size_t count) {
    if constexpr (detail::require_creatable<T>()) {
      return create_array_by(count, std::uninitialized_default_construct_n<T*, std::size_t>);
    }
    return {};
  }

  // ---- the end of objects ----

  // The present position. With TARN_CHECKED_POOLS a marker takes 40 bytes of the arena, otherwise none.
  [[nodiscard]] marker mark() noexcept { return marker(core_.mark()); }
  // Destroys and frees everything allocated since the mark, also an object whose constructor set it; older ones stay. The
  // marker stays valid. Cost: a few instructions within a block, and destructors. Requires: a marker of this arena, and since
  // it was set no reset(), release() or rewind() to an older marker.
  void rewind(const marker& to) noexcept { core_.rewind(to.place_); }
  // Destroys and frees everything. The arena keeps blocks for the next round: at most twice the recent use, or 64 KiB
  // if that is more. (Recent use is the most bytes in use in a round between resets; it falls by an eighth with each
  // round that used less.)
  void reset() noexcept { core_.reset(); }
  // Destroys and frees everything; all pages go back to the page heap, which keeps them backed by memory for a while.
  void release() noexcept { core_.release(); }
  // Makes room for `bytes` bytes, in small pieces or in one, without a further request for memory. Throws
  // std::bad_alloc.
  void reserve(std::size_t bytes) {
    if (!core_.reserve(bytes)) detail::throw_bad_alloc();
  }

  // Bytes allocated, with those lost to alignment and at the end of blocks.
  [[nodiscard]] std::size_t bytes_used() const noexcept { return core_.used(); }
  // Bytes that the arena holds, including the caller's buffer.
  [[nodiscard]] std::size_t bytes_reserved() const noexcept { return core_.reserved; }

 private:
  struct counted_cleanup {
    detail::arena_cleanup cleanup;
    std::size_t count;
  };

  // Where the cleanup (a Note) and the objects that it destroys lie:
  //
  //     memory                       memory + offset
  //     | Note | padding to alignof(T) | T | T | ... |
  template <class T, class Note>
  struct owned {
    static constexpr std::size_t alignment = std::max(alignof(T), alignof(Note));
    static constexpr std::size_t offset = (sizeof(Note) + alignof(T) - 1) / alignof(T) * alignof(T);

    static T* first_in(void* memory) noexcept {
      return reinterpret_cast<T*>(static_cast<char*>(memory) + offset);
    }
    static void end(detail::arena_core& /*core*/, detail::arena_cleanup* self) noexcept {
      std::size_t count = 1;
      if constexpr (std::is_same_v<Note, counted_cleanup>) count = reinterpret_cast<Note*>(self)->count;
      T* const first = std::launder(first_in(self));
      while (count != 0) first[--count].~T();
    }
  };

  template <class T>
  std::span<T> create_array_by(std::size_t count, T* (*construct)(T*, std::size_t)) {
    if constexpr (std::is_trivially_destructible_v<T>) {
      T* const first = allocate_array<T>(count);
      construct(first, count);
      return {first, count};
    } else {
      if (count > detail::most_request / sizeof(T)) detail::throw_bad_alloc();
      using layout = owned<T, counted_cleanup>;
      void* const memory = allocate(layout::offset + count * sizeof(T), layout::alignment);
      T* const first = layout::first_in(memory);
      construct(first, count);
      core_.cleanups = &(::new (memory) counted_cleanup{{core_.cleanups, layout::end}, count})->cleanup;
      return {first, count};
    }
  }

  detail::arena_core core_;
};

TARN_POOLS_END

namespace detail {

TARN_POOLS_BEGIN

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

TARN_POOLS_END

}  // namespace detail

TARN_POOLS_BEGIN

// The calling thread's arena for memory that a function needs until it returns.
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

TARN_POOLS_END

TARN_NAMESPACE_END
}  // namespace tarn
