// SPDX-License-Identifier: MIT
// The fast paths of malloc and free, inlined into every entry point. A hit of malloc: the thread's cache, the bin of
// the size class from a table, a pop. A hit of free: the size class from the page map, a push. Everything else is out
// of line in slow_paths.cpp. The checks of the hardened build: hardened_block.hpp.
//
// Thread safety: all functions may be called by any thread, with no lock held.
#pragma once

#include <cstddef>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "malloc/hardened_block.hpp"
#include "runtime/engine.hpp"

namespace tarn {

// ---- slow paths (slow_paths.cpp) ----

// Allocates any size. Null with errno ENOMEM when there is no memory.
void* allocate_slow(std::size_t size);
// A zeroed large block. Requires: size > largest_class_size. Failure as above.
void* allocate_zeroed_slow(std::size_t size);
// Requires: alignment is a power of two. Failure as above.
void* allocate_aligned(std::size_t alignment, std::size_t size);
// Frees what the fast path did not: null, a block whose magazine is full, a large or guarded block. Aborts on a pointer
// that is not a block.
void deallocate_slow(void* block);
// The same without the magazines of threads: an object from the fullest span of its class, and back into its span. For
// callers that move objects out of sparse spans. Slower than allocate() and deallocate(): each call takes a lock.
void* allocate_uncached(std::size_t size);
void deallocate_uncached(void* block);
// realloc(). Requires: block is not null, size is not 0.
void* reallocate(void* block, std::size_t size);
// Bytes that may be used. Aborts on a pointer that is not a block. Requires: block is not null.
std::size_t usable_size(const void* block);
// Sets errno to ENOMEM and returns null.
void* out_of_memory();

// The bytes at the end of each object that the hardened build keeps for the canary.
inline constexpr std::size_t kept_bytes = hardened_build ? canary_bytes : 0;

// The least object size that serves a request. Requires: size <= largest_class_size - kept_bytes.
constexpr std::size_t object_size(std::size_t size) {
  return hardened_build ? hardened_block::padded(size) : size;
}

// ---- fast paths ----

// The largest request that the fast paths serve.
inline constexpr std::size_t largest_fine = size_classes::fine_end - kept_bytes;

// Pops an object from the thread's bin. Null: a miss, the caller calls allocate_slow(). Requires: size <= largest_fine.
TARN_ALWAYS_INLINE void* pop_fine(std::size_t size) {
  void* const object = engine::local_cache->pop_fine(object_size(size));
  if constexpr (hardened_build) {
    if (TARN_LIKELY(object != nullptr)) {
      hardened_block::hand_out(object, class_info(fine_class_of(object_size(size))).size);
    }
  }
  return object;
}

TARN_ALWAYS_INLINE void* allocate(std::size_t size) {
  if (TARN_LIKELY(size <= largest_fine)) {
    void* const object = pop_fine(size);
    if (TARN_LIKELY(object != nullptr)) return object;
  }
  return allocate_slow(size);
}

// allocate_aligned() where the thread's bin has an object that serves the request; null elsewhere.
TARN_ALWAYS_INLINE void* pop_aligned(std::size_t alignment, std::size_t size) {
  // A size of 0 wraps, and is left to the slow path.
  if (hardened_build || TARN_UNLIKELY(size - 1 >= largest_fine || alignment > largest_fine)) return nullptr;
  const std::size_t below = alignment - 1;
  // The class of a multiple of the alignment has objects whose size is one, too (aligned_classes_hold()), and the last
  // object of a span ends at a page boundary; so all are aligned, except blocks made of grains.
  const std::size_t rounded = (size + below) & ~below;
  thread_cache* const cache = engine::local_cache;
  if (TARN_UNLIKELY((cache->top_fine(rounded) & below) != 0)) return nullptr;
  return cache->pop_fine(rounded);
}

TARN_ALWAYS_INLINE void deallocate(void* block) {
  if constexpr (hardened_build) {
    if (TARN_LIKELY(hardened_block::take_back_small(block))) return;
  } else {
    if (TARN_LIKELY(engine::local_cache->push(engine::map.find(address_of(block)), block))) return;
  }
  deallocate_slow(block);
}

TARN_ALWAYS_INLINE bool product_overflows(std::size_t a, std::size_t b, std::size_t& product) {
  return __builtin_mul_overflow(a, b, &product);
}

}  // namespace tarn
