// SPDX-License-Identifier: MIT
// forwarded_malloc: the functions of the malloc family in front of the next malloc, for a library that does something at each
// call. One source of the library includes it, behind the definitions of what each call goes through, inlined into the hook:
//   bool are_found()                             false while the next functions are being looked up: the early store serves
//   void* get(kind, forward, size, alignment)    `forward` returns the block, or null
//   void give(forward, block)                    of any block: null, and of the early store, too
//   void* resize(forward, block, size)           `block` is not null
#pragma once

#include <errno.h>
#include <stdint.h>

#include <cstring>

#include "profiler/record/early_store.hpp"
#include "profiler/record/next_functions.hpp"
#include "profiler/record/session.hpp"

namespace {

using tarn::profiler::word_kind;
using tarn::profiler::recorder::early_allocate;
using tarn::profiler::recorder::early_size;
using tarn::profiler::recorder::is_early;
using tarn::profiler::recorder::real;

inline void* early(std::size_t size, std::size_t alignment) {
  void* block = early_allocate(size, alignment);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

// Moves a block out of the early store.
inline void* move_early(void* block, std::size_t size) {
  void* moved = are_found() ? real.malloc(size) : early(size, 16);
  if (moved == nullptr) return nullptr;
  const std::size_t old = early_size(block);
  return std::memcpy(moved, block, old < size ? old : size);
}

[[gnu::always_inline]] inline void* reallocate(void* block, std::size_t size) {
  if (is_early(block)) return move_early(block, size);
  if (!are_found()) return early(size, 16);
  if (block == nullptr) {
    return get(
        word_kind::malloc, [=] { return real.realloc(nullptr, size); }, size, 0);
  }
  return resize([=] { return real.realloc(block, size); }, block, size);
}

}  // namespace

// Parameters have the project's names, not libc's, and one source includes this.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,misc-definitions-in-headers)
#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t size) noexcept {
  if (!are_found()) return early(size, 16);
  return get(
      word_kind::malloc, [=] { return real.malloc(size); }, size, 0);
}

void free(void* block) noexcept {
  give([=] { real.free(block); }, block);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t all = 0;
  const bool is_impossible = __builtin_mul_overflow(count, size, &all);
  if (!are_found()) return is_impossible ? nullptr : early(all, 16);
  return get(
      word_kind::calloc, [=] { return real.calloc(count, size); }, is_impossible ? SIZE_MAX : all, 0);
}

void* realloc(void* block, std::size_t size) noexcept { return reallocate(block, size); }

void* reallocarray(void* block, std::size_t count, std::size_t size) noexcept {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, size, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  return reallocate(block, all);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  if (!are_found()) {
    void* block = early_allocate(size, alignment);
    if (block != nullptr) *out = block;
    return block != nullptr ? 0 : ENOMEM;
  }
  int result = 0;
  get(
      word_kind::aligned,
      [&]() -> void* {
        result = real.posix_memalign(out, alignment, size);
        return result == 0 ? *out : nullptr;
      },
      size, alignment);
  return result;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  if (!are_found()) return early(size, alignment);
  return get(
      word_kind::aligned, [=] { return real.aligned_alloc(alignment, size); }, size, alignment);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  if (!are_found()) return early(size, alignment);
  return get(
      word_kind::aligned, [=] { return real.memalign(alignment, size); }, size, alignment);
}

void* valloc(std::size_t size) noexcept {
  if (!are_found()) return early(size, 4096);
  return get(
      word_kind::aligned, [=] { return real.valloc(size); }, size, 4096);
}

void* pvalloc(std::size_t size) noexcept {
  if (!are_found()) return early(size, 4096);
  return get(
      word_kind::aligned, [=] { return real.pvalloc(size); }, size, 4096);
}

std::size_t malloc_usable_size(void* block) noexcept {
  if (is_early(block)) return early_size(block);
  if (block == nullptr || !are_found() || real.malloc_usable_size == nullptr) return 0;
  return real.malloc_usable_size(block);
}

void cfree(void* block) noexcept {
  give([=] { real.free(block); }, block);
}

void free_sized(void* block, std::size_t size) noexcept {
  give([=] { real.free_sized != nullptr ? real.free_sized(block, size) : real.free(block); }, block);
}

void free_aligned_sized(void* block, std::size_t alignment, std::size_t size) noexcept {
  give(
      [=] {
        real.free_aligned_sized != nullptr ? real.free_aligned_sized(block, alignment, size)
                                           : real.free(block);
      },
      block);
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name,misc-definitions-in-headers)
