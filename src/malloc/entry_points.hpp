// SPDX-License-Identifier: MIT
// The argument checks and error rules of the C functions, shared by the tarn_ names (api.cpp) and libc's
// (override.cpp).
//
// Thread safety: all functions may be called by any thread.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "malloc/allocate.hpp"

namespace tarn::entry {

// No object may be larger than PTRDIFF_MAX, or differences of pointers into it would overflow.
inline constexpr std::size_t largest_request = PTRDIFF_MAX;

TARN_ALWAYS_INLINE void* malloc(std::size_t size) { return allocate(size); }

// Whether the block is known to be zero: the hardened build has checked that, except for guarded blocks.
TARN_ALWAYS_INLINE bool comes_as_zeroes(const void* block, std::size_t bytes) {
  return hardened_build && bytes <= largest_fine && engine::map.class_of(address_of(block)) != 0;
}

inline void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (TARN_UNLIKELY(product_overflows(count, size, bytes))) return out_of_memory();
  if (TARN_UNLIKELY(bytes > largest_class_size)) return allocate_zeroed_slow(bytes);
  void* const block = allocate(bytes);
  if (TARN_LIKELY(block != nullptr && !comes_as_zeroes(block, bytes))) std::memset(block, 0, bytes);
  return block;
}

inline void* realloc(void* block, std::size_t size) {
  if (block == nullptr) return allocate(size);
  if (size == 0) {
    deallocate(block);
    return nullptr;
  }
  return reallocate(block, size);
}

inline void* reallocarray(void* block, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (product_overflows(count, size, bytes)) return out_of_memory();
  return realloc(block, bytes);
}

inline void* aligned_alloc(std::size_t alignment, std::size_t size) {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return nullptr;
  }
  if (size > largest_request) return out_of_memory();
  return allocate_aligned(alignment, size);
}

inline int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  // On failure errno is also set, as glibc does, because programs print it.
  void* const block = size > largest_request ? out_of_memory() : allocate_aligned(alignment, size);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}

// As in tarn/malloc.h.
void* valloc(std::size_t size);
void* pvalloc(std::size_t size);
std::size_t trim(std::size_t keep);

TARN_ALWAYS_INLINE std::size_t usable_size(const void* block) {
  return block == nullptr ? 0 : tarn::usable_size(block);
}

}  // namespace tarn::entry
