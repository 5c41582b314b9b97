// SPDX-License-Identifier: MIT
// Hooks of the malloc family, in front of the next malloc; and this library's start.
#include <errno.h>
#include <stdint.h>

#include <cstring>

#include "profiler/tail/tail_hooks.hpp"

using namespace tarn::profiler::tail;
using tarn::profiler::recorder::early_allocate;
using tarn::profiler::recorder::early_size;
using tarn::profiler::recorder::is_early;
using tarn::profiler::recorder::real;

namespace {

void* early(std::size_t size, std::size_t alignment) {
  void* block = early_allocate(size, alignment);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

void* move_early(void* block, std::size_t size) {
  void* moved = are_found() ? real.malloc(size) : early(size, 16);
  if (moved == nullptr) return nullptr;
  const std::size_t old = early_size(block);
  return std::memcpy(moved, block, old < size ? old : size);
}

[[gnu::constructor(101)]] void begin() {
  if (!are_found()) return;
  next_operators();
  begin_process();
}

}  // namespace

// Parameters have the project's names, not libc's. NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t size) noexcept {
  if (!are_found()) return early(size, 16);
  return timed_get([=] { return real.malloc(size); }, size);
}

void free(void* block) noexcept {
  timed_give([=] { real.free(block); }, block);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t all = 0;
  const bool is_impossible = __builtin_mul_overflow(count, size, &all);
  if (!are_found()) return is_impossible ? nullptr : early(all, 16);
  return timed_get([=] { return real.calloc(count, size); }, is_impossible ? SIZE_MAX : all);
}

void* realloc(void* block, std::size_t size) noexcept {
  if (is_early(block)) return move_early(block, size);
  if (!are_found()) return early(size, 16);
  if (block == nullptr) return timed_get([=] { return real.realloc(nullptr, size); }, size);
  return timed_resize([=] { return real.realloc(block, size); }, block, size);
}

void* reallocarray(void* block, std::size_t count, std::size_t size) noexcept {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, size, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(block, all);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  if (!are_found()) {
    void* block = early_allocate(size, alignment);
    if (block != nullptr) *out = block;
    return block != nullptr ? 0 : ENOMEM;
  }
  int result = 0;
  timed_get(
      [&]() -> void* {
        result = real.posix_memalign(out, alignment, size);
        return result == 0 ? *out : nullptr;
      },
      size);
  return result;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  if (!are_found()) return early(size, alignment);
  return timed_get([=] { return real.aligned_alloc(alignment, size); }, size);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  if (!are_found()) return early(size, alignment);
  return timed_get([=] { return real.memalign(alignment, size); }, size);
}

void* valloc(std::size_t size) noexcept {
  if (!are_found()) return early(size, 4096);
  return timed_get([=] { return real.valloc(size); }, size);
}

void* pvalloc(std::size_t size) noexcept {
  if (!are_found()) return early(size, 4096);
  return timed_get([=] { return real.pvalloc(size); }, size);
}

std::size_t malloc_usable_size(void* block) noexcept {
  if (is_early(block)) return early_size(block);
  if (block == nullptr || !are_found() || real.malloc_usable_size == nullptr) return 0;
  return real.malloc_usable_size(block);
}

void cfree(void* block) noexcept { free(block); }

void free_sized(void* block, std::size_t size) noexcept {
  timed_give([=] { real.free_sized != nullptr ? real.free_sized(block, size) : real.free(block); }, block);
}

void free_aligned_sized(void* block, std::size_t alignment, std::size_t size) noexcept {
  timed_give(
      [=] {
        real.free_aligned_sized != nullptr ? real.free_aligned_sized(block, alignment, size)
                                           : real.free(block);
      },
      block);
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
