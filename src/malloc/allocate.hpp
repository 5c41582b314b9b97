// SPDX-License-Identifier: MIT
// The fast paths of malloc and free, inlined into every entry point. A hit is: the thread's cache, the class
// from a table, a pop; or the class from the page map, a push. Everything else is out of line in
// slow_paths.cpp. The hardened build's checks stand beside (hardened_block.hpp).
#pragma once

#include <cstddef>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "malloc/hardened_block.hpp"
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

// The bytes that the hardened build keeps of each object of a class for itself.
inline constexpr std::size_t kept_bytes = hardened_build ? hardened_block::canary_bytes : 0;

// The size of object that serves a request. Requires: size <= largest_class_size - kept_bytes.
constexpr std::size_t object_size(std::size_t size) {
  return hardened_build ? hardened_block::padded(size) : size;
}

// ---- fast paths ----

// The largest request that they serve.
inline constexpr std::size_t largest_fine = size_classes::fine_end - kept_bytes;

// Requires: size <= largest_fine. Null: allocate_slow.
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
