// SPDX-License-Identifier: MIT
// coroutine_frames: a base of promise types whose coroutines' frames come from pools by size. frame_allocator<T>: the same
// memory as a standard allocator, for completion handlers and other short-lived objects of many sizes.
//
//     struct task {
//       struct promise_type : tarn::coroutine_frames {
//         task get_return_object();
//         ...
//       };
//     };
//
// A compiler can leave a frame out when a coroutine ends within its caller; all other frames cost an allocation and a
// deallocation each, of a size that is known at the end as well. A frame comes from a pool of slots of its size: sizes are
// 8 bytes apart up to 128 (16 for frames, which are aligned to 16), then eight per doubling up to 4 KiB. The pools are
// those of the process: each thread keeps arrays of free slots, and a frame may be freed by any thread. Larger frames come
// from operator new. tarn::pools() lists the pools as "tarn::coroutine_frames/SIZE".
//
// Use it where coroutines are made and ended all the time: a task for each message, request or step of an algorithm. Do not
// use it for a few coroutines that live as long as the program, nor where tarn is the program's malloc and frames are no
// measurable cost: malloc is a third slower, and needs no change.
// boost::asio::awaitable and other types of libraries have promises of their own, which cannot be given a base: see
// docs/how-to/adapters/asio.md.
//
// Requires: the promise does not declare operator new or operator delete itself. A promise that declares
// get_return_object_on_allocation_failure() derives from try_coroutine_frames. Frames are aligned to 16
// bytes: no compiler asks for more by the standard's rules, so over-aligned variables of a coroutine are misaligned with this
// base as without it.
// Thread safety: any thread. Lifetime: the pools are never destroyed; frames may live until the process ends.
// Failure: std::bad_alloc. Cost of a hit: about 12 instructions; a miss as pool_of<T>().
// Memory: for each size in use a span of 8 KiB or more, and for each thread that uses it two arrays of free slots.
// (Magazines: tarn/pool.hpp; geometric sizes: tarn/resources.hpp.)
#pragma once

#include "tarn/detail/abi.hpp"

#include <charconv>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include "tarn/detail/config.hpp"
#include "tarn/detail/construct.hpp"
#include "tarn/detail/pool_bin.hpp"
#include "tarn/detail/slot_sizes.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN

namespace detail {

TARN_POOLS_BEGIN

// What a thread knows of the pool of one size. (Not nested: its initialisers are needed inside the class.)
struct frames_of_thread {
  tarn_pool_bin* bin = &no_bin.bin;
  tarn_pool* pool = nullptr;
};

// The process-wide pools of frames, one per slot size, and the calling thread's bins of them.
class frame_pools {
 public:
  static constexpr std::size_t alignment = 16;
  // Frames up to this size come from pools.
  static constexpr std::size_t largest = slot_sizes::largest;

  // Null when there is no memory.
  TARN_DETAIL_INLINE static void* take(std::size_t bytes) noexcept {
    if (TARN_DETAIL_UNLIKELY(bytes > largest)) return ::operator new(bytes, std::nothrow);
    const std::size_t index = index_of(bytes);
    if constexpr (TARN_CHECKED_POOLS == 0) {
      if (void* const slot = pop(mine_[index].bin)) {
        unpoison(slot, bytes);
        return slot;
      }
    }
    return take_slow(index, bytes);
  }
  // Requires: from take(bytes), in whichever thread, and not given back since.
  TARN_DETAIL_INLINE static void give(void* frame, std::size_t bytes) noexcept {
    if (TARN_DETAIL_UNLIKELY(bytes > largest)) return ::operator delete(frame);
    const std::size_t index = index_of(bytes);
    if constexpr (TARN_CHECKED_POOLS == 0) {
      poison(frame, slot_sizes::size_of(index));
      if (TARN_DETAIL_LIKELY(push(mine_[index].bin, frame))) return;
    }
    give_slow(index, frame);
  }

 private:
  static constexpr std::size_t index_of(std::size_t bytes) {
    const std::size_t rounded = slot_sizes::align_up(bytes, alignment);
    return slot_sizes::index_of(rounded != 0 ? rounded : alignment);
  }
  TARN_DETAIL_COLD static void* take_slow(std::size_t index, std::size_t bytes) noexcept {
    tarn_pool* const pool = pool_of_size(index);
    if (pool == nullptr) return nullptr;
    void* const slot = TARN_CHECKED_POOLS != 0 ? tarn_pool_checked_allocate(pool, &mine_[index].bin)
                                               : tarn_pool_allocate_slow(pool, &mine_[index].bin);
    if (slot != nullptr) unpoison(slot, bytes);
    return slot;
  }
  TARN_DETAIL_COLD static void give_slow(std::size_t index, void* frame) noexcept {
    // Known here, or found by the frame's address if there is no memory to make it known.
    tarn_pool* const pool = pool_of_size(index);
    if constexpr (TARN_CHECKED_POOLS != 0)
      return tarn_pool_checked_deallocate(pool, &mine_[index].bin, frame);
    tarn_pool_deallocate_slow(pool, &mine_[index].bin, frame);
  }
  // All libraries and programs into which this header is compiled share the pools, which the library finds by name.
  static tarn_pool* pool_of_size(std::size_t index) noexcept {
    frames_of_thread& mine = mine_[index];
    if (mine.pool != nullptr) return mine.pool;
    constexpr char prefix[] = "tarn::coroutine_frames/";
    char name[sizeof(prefix) + 8];
    std::memcpy(name, prefix, sizeof(prefix) - 1);
    const char* const end =
        std::to_chars(name + sizeof(prefix) - 1, name + sizeof(name), slot_sizes::size_of(index)).ptr;
    tarn_pool_options request = TARN_POOL_OPTIONS;
    request.object_size = slot_sizes::size_of(index);
    request.alignment = alignment;
    request.name = name;
    request.name_length = static_cast<std::size_t>(end - name);
    request.checked = TARN_CHECKED_POOLS;
    mine.pool = tarn_pool_shared(&request);
    return mine.pool;
  }

  static inline constinit thread_local frames_of_thread mine_[slot_sizes::count] = {};
};

TARN_POOLS_END

}  // namespace detail

TARN_POOLS_BEGIN

class coroutine_frames {
 public:
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t bytes) {
    void* const frame = detail::frame_pools::take(bytes);
    if (TARN_DETAIL_UNLIKELY(frame == nullptr)) detail::throw_bad_alloc();
    return frame;
  }
  TARN_DETAIL_INLINE static void operator delete(void* frame, std::size_t bytes) noexcept {
    detail::frame_pools::give(frame, bytes);
  }

 protected:
  ~coroutine_frames() = default;
};

// The same for promises that declare get_return_object_on_allocation_failure(): null when there is no memory.
class try_coroutine_frames {
 public:
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t bytes) noexcept {
    return detail::frame_pools::take(bytes);
  }
  TARN_DETAIL_INLINE static void operator delete(void* frame, std::size_t bytes) noexcept {
    detail::frame_pools::give(frame, bytes);
  }

 protected:
  ~try_coroutine_frames() = default;
};

// Memory of the pools of coroutine_frames for one object or array of T. All allocators are equal. Over-aligned types, and
// arrays above 4 KiB, come from operator new.
// Failure: std::bad_alloc; std::bad_array_new_length if the size overflows. Thread safety: any thread.
template <class T>
class frame_allocator {
 public:
  using value_type = T;
  using is_always_equal = std::true_type;

  constexpr frame_allocator() noexcept = default;
  template <class Other>
  constexpr frame_allocator(const frame_allocator<Other>& /*other*/) noexcept {
  }  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* allocate(std::size_t count) {
    void* memory = nullptr;
    if constexpr (detail::require_complete<T>()) {
      if (TARN_DETAIL_UNLIKELY(count > static_cast<std::size_t>(-1) / sizeof(T))) throw_bad_length();
      if constexpr (is_over_aligned) {
        memory = ::operator new(count * sizeof(T), std::align_val_t{alignof(T)}, std::nothrow);
      } else {
        memory = detail::frame_pools::take(count * sizeof(T));
      }
    }
    if (TARN_DETAIL_UNLIKELY(memory == nullptr)) detail::throw_bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if constexpr (is_over_aligned) {
      ::operator delete(memory, std::align_val_t{alignof(T)});
    } else {
      detail::frame_pools::give(memory, count * sizeof(T));
    }
  }

  template <class Other>
  friend constexpr bool operator==(const frame_allocator& /*a*/,
                                   const frame_allocator<Other>& /*b*/) noexcept {
    return true;
  }

 private:
  static constexpr bool is_over_aligned = alignof(T) > detail::frame_pools::alignment;

  [[noreturn]] TARN_DETAIL_COLD static void throw_bad_length() {
#if defined(__cpp_exceptions)
    throw std::bad_array_new_length();
#else
    std::abort();
#endif
  }
};

template <class T>
  requires(!detail::is_allocated<T>)
class frame_allocator<T> : detail::refused_element<T> {};

TARN_POOLS_END

TARN_NAMESPACE_END
}  // namespace tarn
