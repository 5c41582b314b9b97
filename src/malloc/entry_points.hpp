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
#include "malloc/hardened_size.hpp"

namespace tarn::entry {

// No object may be larger than PTRDIFF_MAX, or differences of pointers into it would overflow.
inline constexpr std::size_t largest_request = PTRDIFF_MAX;

TARN_ALWAYS_INLINE void* malloc(std::size_t size) { return allocate(size); }

// Whether the block is known to be zero: the hardened build has checked that, except for guarded blocks.
TARN_ALWAYS_INLINE bool comes_as_zeroes(const void* block, std::size_t bytes) {
  return hardened_build && bytes <= largest_fine && engine::map.class_of(address_of(block)) != 0;
}

// calloc() of everything that the fast path does not serve.
TARN_NOINLINE inline void* calloc_slow(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (TARN_UNLIKELY(product_overflows(count, size, bytes))) return out_of_memory();
  if (TARN_UNLIKELY(bytes > largest_class_size)) return allocate_zeroed_slow(bytes, 1);
  void* const block = allocate(bytes);
  if (TARN_LIKELY(block != nullptr && !comes_as_zeroes(block, bytes))) std::memset(block, 0, bytes);
  return block;
}

// A call of memset takes longer than everything else for a block of up to this size.
inline constexpr std::size_t zeroed_here = 64;

// Zeroes an object that serves a request of 1 to zeroed_here bytes. Its size is 8 or a multiple of 16 bytes.
TARN_ALWAYS_INLINE void zero_small(void* object, std::size_t bytes) {
  using half = std::uint64_t __attribute__((may_alias));
  using line = std::uint64_t __attribute__((vector_size(16), may_alias));
  if (bytes <= 8) {
    *static_cast<half*>(object) = 0;
    return;
  }
  auto* const lines = static_cast<line*>(object);
  lines[0] = line{};
  if (bytes <= 16) return;
  lines[(bytes - 1) / 16] = line{};
  if (bytes <= 32) return;
  lines[1] = line{};
  lines[(bytes - 1) / 16 - 1] = line{};
}

TARN_ALWAYS_INLINE void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (hardened_build || TARN_UNLIKELY(product_overflows(count, size, bytes) || bytes > largest_fine))
    return calloc_slow(count, size);
  void* const block = pop_fine(bytes);
  if (TARN_UNLIKELY(block == nullptr)) return calloc_slow(count, size);
  if (bytes > zeroed_here) return std::memset(block, 0, bytes);
  zero_small(block, bytes);
  return block;
}

TARN_NOINLINE inline void* realloc_slow(void* block, std::size_t size) {
  if (block == nullptr) return allocate(size);
  if (size == 0) {
    deallocate(block);
    return nullptr;
  }
  return reallocate(block, size);
}

TARN_ALWAYS_INLINE void* realloc(void* block, std::size_t size) {
  return TARN_LIKELY(stays_for_sure(block, size)) ? block : realloc_slow(block, size);
}

inline void* reallocarray(void* block, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (product_overflows(count, size, bytes)) return out_of_memory();
  return realloc(block, bytes);
}

// Of a size above largest_request, or an alignment that is none.
TARN_NOINLINE inline void* aligned_alloc_refused(std::size_t alignment) {
  errno = is_power_of_two(alignment) ? ENOMEM : EINVAL;
  return nullptr;
}

TARN_ALWAYS_INLINE void* aligned_alloc(std::size_t alignment, std::size_t size) {
  if (TARN_LIKELY(is_power_of_two(alignment))) {
    void* const object = pop_aligned(alignment, size);
    if (TARN_LIKELY(object != nullptr)) return object;
    if (TARN_LIKELY(size <= largest_request)) return allocate_aligned(alignment, size);
  }
  return aligned_alloc_refused(alignment);
}

TARN_ALWAYS_INLINE int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  if (void* const object = pop_aligned(alignment, size); TARN_LIKELY(object != nullptr)) {
    *out = object;
    return 0;
  }
  // On failure errno is also set, as glibc does, because programs print it.
  void* const block = size > largest_request ? out_of_memory() : allocate_aligned(alignment, size);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}

// Ends the process if the block has another size; only the hardened build looks.
inline void check_size(const void* block, std::size_t alignment, std::size_t size) {
  if constexpr (hardened_build)
    hardened_size::check(block, size, alignment, hardened_size::how_named::after_realloc);
}

TARN_ALWAYS_INLINE void free_sized(void* block, std::size_t alignment, std::size_t size) {
  check_size(block, alignment, size);
  deallocate(block);
}

// The size of a block for pvalloc: whole system pages, at least one. 0: no object may be so large.
std::size_t whole_pages(std::size_t size);

// As in tarn/malloc.h.
void* valloc(std::size_t size);
void* pvalloc(std::size_t size);
std::size_t trim(std::size_t keep);

TARN_ALWAYS_INLINE std::size_t usable_size(const void* block) {
  return block == nullptr ? 0 : tarn::usable_size(block);
}

}  // namespace tarn::entry
