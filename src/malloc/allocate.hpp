// SPDX-License-Identifier: MIT
// The fast paths of malloc and free, inlined into every entry point. A hit is: the thread's cache, the class
// from a table, a pop; or the class from the page map, a push. Everything else is out of line in
// slow_paths.cpp; in the hardened build, all of it.
#pragma once

#include <cstddef>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "runtime/engine.hpp"

namespace tarn {

// ---- slow paths (slow_paths.cpp) ----

// Any size. Null with errno ENOMEM when there is no memory.
void* allocate_slow(std::size_t size);
void* allocate_zeroed_slow(std::size_t size);
// A power of two and any size; ENOMEM as above. Alignments up to 16 are those of allocate().
void* allocate_aligned(std::size_t alignment, std::size_t size);
// What the fast path did not take: null, a full magazine, a large block, or a pointer that is no block.
void deallocate_slow(void* block);
// realloc of a block that is not null, to a size that is not zero.
void* reallocate(void* block, std::size_t size);
// Bytes that may be used. Aborts on a pointer that is no block.
std::size_t usable_size(const void* block);
// Sets errno to ENOMEM; null.
void* out_of_memory();

// ---- fast paths ----

TARN_ALWAYS_INLINE void* allocate(std::size_t size) {
  if (!hardened_build && TARN_LIKELY(size <= size_classes::fine_end)) {
    void* const object = engine::local_cache->pop_fine(size);
    if (TARN_LIKELY(object != nullptr)) return object;
  }
  return allocate_slow(size);
}

TARN_ALWAYS_INLINE void deallocate(void* block) {
  if (!hardened_build && TARN_LIKELY(engine::local_cache->push(engine::map.find(address_of(block)), block))) {
    return;
  }
  deallocate_slow(block);
}

TARN_ALWAYS_INLINE bool product_overflows(std::size_t a, std::size_t b, std::size_t& product) {
  return __builtin_mul_overflow(a, b, &product);
}

}  // namespace tarn
