// SPDX-License-Identifier: MIT
// The fast paths of malloc and free, inlined into every entry point. A hit of malloc: the thread's cache, or what it has
// of the scope that it is in; the bin of the size class from a table; a pop. A hit of free: the size class from the page
// map, a push. Everything else is out of line: what malloc misses in miss.cpp, free() in free.cpp, realloc() in
// resize.cpp, blocks that are no objects of a class in block.cpp. The checks of the hardened build: hardened_block.hpp.
//
// Thread safety: all functions may be called by any thread, with no lock held.
#pragma once

#include <cstddef>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "engine/engine.hpp"
#include "malloc/hardened_block.hpp"

namespace tarn {

// ---- slow paths ----

// Allocates any size. Null with errno ENOMEM when there is no memory.
void* allocate_slow(std::size_t size);
// A zeroed large block: memory that is known to be zero is not written to. Requires: has_no_class(). Failure as above.
void* allocate_zeroed_slow(std::size_t size, std::size_t alignment);
// Requires: alignment is a power of two. Failure as above.
void* allocate_aligned(std::size_t alignment, std::size_t size);
// Frees what the fast path did not: null, a block whose magazine is full, a large or guarded block. Aborts on a pointer
// that is not a block.
void deallocate_slow(void* block);
// The same without the magazines of threads: an object from the fullest span of its class, and back into its span. For
// callers that move objects out of sparse spans. Slower than allocate_aligned() and deallocate(): each call takes a lock.
void* allocate_uncached(std::size_t alignment, std::size_t size);
void deallocate_uncached(void* block);
// realloc(). Requires: block is not null, size is not 0. Null: there is no memory to make it longer.
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

// ---- alignment and length ----

// Whether a place has the alignment, a power of two. Who promises more than 8 bytes, or 16 from a size of 16 on, asks
// this about every place that may be a run of grains, since such a run serves any class and is aligned to 16 only.
TARN_ALWAYS_INLINE bool keeps_alignment(const void* place, std::size_t alignment) {
  return (address_of(place) & (alignment - 1)) == 0;
}

// Whether a request gets a large block.
inline bool has_no_class(std::size_t size, std::size_t alignment) {
  return size > largest_class_size - kept_bytes ||
         aligned_class_of(object_size(size), alignment) == size_classes::count;
}

// Whether a block of `have` bytes that realloc makes `size` bytes long stays where it is: more than half of it is used,
// or there is no smaller class.
constexpr bool stays(std::size_t have, std::size_t size) {
  return size <= have && (size > have / 2 || have <= class_info(1).size);
}

// ---- fast paths ----

// The largest request that the fast paths serve.
inline constexpr std::size_t largest_fine = size_classes::fine_end - kept_bytes;

// Pops an object from the thread's bin. Null: a miss, the caller calls allocate_slow(). Requires: size <= largest_fine.
TARN_ALWAYS_INLINE void* pop_fine(std::size_t size) {
  void* const object = engine::allocating->pop_fine(object_size(size));
  if constexpr (hardened_build) {
    if (TARN_LIKELY(object != nullptr)) {
      hardened_block::hand_out(object, class_info(fine_class_of(object_size(size))).size);
    }
  }
  return object;
}

// Whether the fast paths serve the size. In the hardened build blocks of 0 bytes are of another kind (hardened_zero.hpp).
constexpr bool is_fine(std::size_t size) {
  return hardened_build ? size - 1 < largest_fine : size <= largest_fine;
}

TARN_ALWAYS_INLINE void* allocate(std::size_t size) {
  if (TARN_LIKELY(is_fine(size))) {
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
  allocation_bins* const bins = engine::allocating;
  if (TARN_UNLIKELY((bins->top_fine(rounded) & below) != 0)) return nullptr;
  return bins->pop_fine(rounded);
}

TARN_ALWAYS_INLINE void deallocate(void* block) {
  if constexpr (hardened_build) {
    if (TARN_LIKELY(hardened_block::take_back_small(block))) return;
  } else {
    const page_map::entry page = engine::map.find(address_of(block));
    if (TARN_LIKELY(page.has_leaf() && engine::local_cache->push(page, block))) return;
  }
  deallocate_slow(block);
}

// Whether realloc leaves the block where it is for sure: it is a live object that stays(). False of everything else, and of
// runs of grains, whose length only reallocate() asks.
TARN_ALWAYS_INLINE bool stays_for_sure(const void* block, std::size_t size) {
  const page_map::entry page = engine::map.find(address_of(block));
  const auto size_class = static_cast<unsigned>(page.size_class());
  const auto& info = class_info(size_class);
  return !hardened_build && size <= info.size && size > info.size / 2 &&
         !size_classes::is_grain(size_class) && page.begins_object(address_of(block), info.reciprocal) &&
         !free_mark::is_set(engine::map, size_class, block);
}

TARN_ALWAYS_INLINE bool product_overflows(std::size_t a, std::size_t b, std::size_t& product) {
  return __builtin_mul_overflow(a, b, &product);
}

}  // namespace tarn
