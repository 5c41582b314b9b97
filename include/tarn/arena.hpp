// SPDX-License-Identifier: MIT
// arena: memory for objects that end together, handed out by moving a pointer.
//
// Use it for what one request, one frame, one parse or one compilation unit builds up and drops as a whole. Do not
// when single objects must go back while others stay: memory returns only by rewind(), reset(), release() or the
// arena's end. An arena that lives as long as a service and is never reset is a leak.
//
// Memory comes in blocks from the engine's page heap: 8 KiB at first, as much again as there is already, at most
// 1 MiB at once; requests above half of that get pages of their own. What a request finds no room for at the end of a
// block is lost until the arena is rewound, and less than that request.
//
// Destructors: create() and create_array() see to it that destructors that do something run, newest first, when the
// memory of the object goes: by rewind(), reset(), release() or the arena's end. That takes 16 bytes more per object;
// a type without a destructor pays nothing. create_without_destructor() is for objects that own nothing beyond the
// arena.
//
// Thread safety: none; calls must not overlap. Arena and objects may move to another thread as a whole.
// Failure: std::bad_alloc, or null from the try_ forms; nothing allocated before is affected. Without exceptions, the
// process ends instead of the throw.
// Cost: about seven instructions per allocation, when size and alignment are constants; a block costs a lock.
// AddressSanitizer knows what is handed out and what is not. With TARN_CHECKED_POOLS, memory that is rewound is
// filled with 0xdd, and a marker that is no longer valid ends the process with a message.
#pragma once

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

namespace tarn {

inline namespace TARN_POOL_MODE {

class arena {
 public:
  // A place in the arena's history, to rewind to.
  class marker {
    friend class arena;
    explicit marker(const detail::arena_marker& place) noexcept : place_(place) {}
    detail::arena_marker place_;
  };

  // Takes no memory yet.
  constexpr arena() noexcept = default;
  // Uses the buffer before it takes any pages, and again after every reset. Requires: the buffer outlives the arena,
  // and any arena that this one is moved to. 16 bytes of it are the arena's own; one that is smaller is not used.
  arena(void* buffer, std::size_t bytes) noexcept { core_.adopt_buffer(buffer, bytes); }
  // Movable, so that a result can carry the memory that it lies in: all pointers and markers stay valid, and belong to
  // the new arena. The old one is empty, as a new one. What refers to the arena itself (arena_resource) does not
  // follow.
  arena(arena&& other) noexcept : core_(std::exchange(other.core_, {})) {}
  arena& operator=(arena&& other) noexcept {
    if (this != &other) {
      core_.end();
      core_ = std::exchange(other.core_, {});
    }
    return *this;
  }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  // As release(). A buffer is the user's again.
  ~arena() { core_.end(); }

  // ---- memory ----

  // Requires: alignment is a power of two. 0 bytes give a pointer that is not null, and may be another's too.
  [[nodiscard]] TARN_DETAIL_INLINE void* allocate(std::size_t bytes,
                                                  std::size_t alignment = alignof(std::max_align_t)) {
    return core_.allocate_or_throw(bytes, alignment);
  }
  // Null when there is no memory.
  [[nodiscard]] TARN_DETAIL_INLINE void* try_allocate(
      std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) noexcept {
    return core_.allocate(bytes, alignment);
  }
  // Takes the memory back if it is the last that was handed out, and does nothing otherwise. Requires: from allocate()
  // of this arena, with the same size.
  TARN_DETAIL_INLINE void deallocate(void* memory, std::size_t bytes) noexcept {
    core_.take_back(memory, bytes);
  }

  // Memory for so many Ts; no constructor runs. Throws std::bad_alloc also when their size has no std::size_t.
  template <class T>
  [[nodiscard]] TARN_DETAIL_INLINE T* allocate_array(std::size_t count) {
    if (TARN_DETAIL_UNLIKELY(count > detail::most_request / sizeof(T))) detail::throw_bad_alloc();
    return static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  }
  // The text's bytes, in the arena; no null byte behind them.
  [[nodiscard]] std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* const memory = allocate_array<char>(text.size());
    std::memcpy(memory, text.data(), text.size());
    return {memory, text.size()};
  }

  // ---- objects ----

  // A new T, whose destructor runs when its memory goes. Throws std::bad_alloc, and what the constructor throws; then
  // no destructor is noted, and the memory stays taken until the arena is rewound.
  template <class T, class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* create(Args&&... args) {
    if constexpr (std::is_trivially_destructible_v<T>) {
      return create_without_destructor<T>(std::forward<Args>(args)...);
    } else {
      using layout = owned<T, detail::arena_cleanup>;
      void* const memory = allocate(layout::offset + sizeof(T), layout::alignment);
      T* const object = ::new (static_cast<void*>(layout::first_in(memory))) T(std::forward<Args>(args)...);
      core_.cleanups = ::new (memory) detail::arena_cleanup{core_.cleanups, layout::end};
      return object;
    }
  }
  // A new T, whose destructor never runs.
  template <class T, class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* create_without_destructor(Args&&... args) {
    return ::new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
  }
  // So many Ts, value-initialised; destructors as with create(), last element first.
  template <class T>
  [[nodiscard]] std::span<T> create_array(std::size_t count) {
    if constexpr (std::is_trivially_destructible_v<T>) {
      T* const first = allocate_array<T>(count);
      std::uninitialized_value_construct_n(first, count);
      return {first, count};
    } else {
      if (count > detail::most_request / sizeof(T)) detail::throw_bad_alloc();
      using layout = owned<T, counted_cleanup>;
      void* const memory = allocate(layout::offset + count * sizeof(T), layout::alignment);
      T* const first = layout::first_in(memory);
      std::uninitialized_value_construct_n(first, count);
      core_.cleanups = &(::new (memory) counted_cleanup{{core_.cleanups, layout::end}, count})->cleanup;
      return {first, count};
    }
  }

  // ---- the end of objects ----

  // In checked programs a marker takes 40 bytes, elsewhere none.
  [[nodiscard]] marker mark() noexcept { return marker(core_.mark()); }
  // All that was made since the mark ends; what was made before stays. The marker stays valid. Cost: a few
  // instructions within a block, besides destructors. Requires: a marker of this arena, and since it was set no
  // reset(), release() or rewind() to an older one.
  void rewind(const marker& to) noexcept { core_.rewind(to.place_); }
  // All ends, and the arena is as new but for memory that it keeps: at most twice what was in use in recent rounds
  // between resets, or 64 KiB. (The most that was in use counts, and an eighth less with each round that used less.)
  void reset() noexcept { core_.reset(); }
  // All ends, and all pages go back to the page heap, which keeps them warm for a while for whoever asks.
  void release() noexcept { core_.release(); }
  // So many bytes, in small pieces or in one, without asking for memory. Throws std::bad_alloc.
  void reserve(std::size_t bytes) {
    if (!core_.reserve(bytes)) detail::throw_bad_alloc();
  }

  // Bytes handed out, with what was lost to alignment and at the end of blocks.
  [[nodiscard]] std::size_t bytes_used() const noexcept { return core_.used(); }
  // Bytes that the arena holds, the user's buffer among them.
  [[nodiscard]] std::size_t bytes_reserved() const noexcept { return core_.reserved; }

 private:
  struct counted_cleanup {
    detail::arena_cleanup cleanup;
    std::size_t count;
  };

  // Ts behind the cleanup that ends them, which is a Note.
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

  detail::arena_core core_;
};

}  // namespace TARN_POOL_MODE

}  // namespace tarn
