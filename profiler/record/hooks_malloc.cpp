// SPDX-License-Identifier: MIT
// The malloc family, in front of the program's own.
#include <errno.h>

#include <cstring>

#include "profiler/record/origin.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

// False while the program's functions are being looked for.
bool ready() { return __builtin_expect(real.malloc_ != nullptr, 1) != 0 || find_real_functions(); }

void* early(std::size_t size, std::size_t alignment) {
  void* block = early_allocate(size, alignment);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

// A block that a hook got from the program's malloc, if it is to be told.
[[gnu::always_inline]] inline void* told(word_kind kind, void* block, std::size_t size,
                                         std::size_t alignment) {
  if (block == nullptr) return nullptr;
  if (__builtin_expect(self.in_new != 0, 0) != 0 && is_inner_call(return_address(), true)) return block;
  if (wants_allocation(size)) allocated(kind, block, size, alignment, caller());
  return block;
}

// False: nothing is to be given back to the program's malloc.
[[gnu::always_inline]] inline bool told_of_free(void* block) {
  if (__builtin_expect(block == nullptr || is_early(block), 0) != 0) return false;
  if (__builtin_expect(self.in_new != 0, 0) != 0 && is_inner_call(return_address(), true)) return true;
  if (wants_free(block)) freeing(word_kind::free, block);
  return true;
}

// Out of the early store: what was there before the program's malloc was known.
void* move_early(void* block, std::size_t size) {
  void* moved = ready() ? real.malloc_(size) : early(size, 16);
  if (moved == nullptr) return nullptr;
  const std::size_t old = early_size(block);
  return std::memcpy(moved, block, old < size ? old : size);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t size) noexcept {
  if (!ready()) return early(size, 16);
  return told(word_kind::malloc, real.malloc_(size), size, 0);
}

void free(void* block) noexcept {
  if (told_of_free(block)) real.free_(block);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  if (!ready()) {
    std::size_t all = 0;
    return __builtin_mul_overflow(count, size, &all) ? nullptr : early(all, 16);
  }
  return told(word_kind::calloc, real.calloc_(count, size), count * size, 0);
}

void* realloc(void* block, std::size_t size) noexcept {
  if (is_early(block)) return move_early(block, size);
  if (!ready()) return early(size, 16);
  if (block == nullptr) return told(word_kind::malloc, real.realloc_(nullptr, size), size, 0);
  if (__builtin_expect(self.in_new != 0, 0) != 0 && is_inner_call(return_address(), true))
    return real.realloc_(block, size);
  const bool begun = wants_free(block) && realloc_begins(block);
  void* moved = real.realloc_(block, size);
  if (wants_allocation(size) || begun) realloc_ends(begun, moved, size, caller());
  return moved;
}

void* reallocarray(void* block, std::size_t count, std::size_t size) noexcept {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, size, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (is_early(block)) return move_early(block, all);
  if (!ready()) return early(all, 16);
  if (block == nullptr) return told(word_kind::malloc, real.realloc_(nullptr, all), all, 0);
  const bool begun = wants_free(block) && realloc_begins(block);
  void* moved = real.realloc_(block, all);
  if (wants_allocation(all) || begun) realloc_ends(begun, moved, all, caller());
  return moved;
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  if (!ready()) {
    void* block = early_allocate(size, alignment);
    if (block != nullptr) *out = block;
    return block != nullptr ? 0 : ENOMEM;
  }
  const int result = real.posix_memalign_(out, alignment, size);
  if (result == 0) told(word_kind::aligned, *out, size, alignment);
  return result;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  if (!ready()) return early(size, alignment);
  return told(word_kind::aligned, real.aligned_alloc_(alignment, size), size, alignment);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  if (!ready()) return early(size, alignment);
  return told(word_kind::aligned, real.memalign_(alignment, size), size, alignment);
}

void* valloc(std::size_t size) noexcept {
  if (!ready()) return early(size, 4096);
  return told(word_kind::aligned, real.valloc_(size), size, 4096);
}

void* pvalloc(std::size_t size) noexcept {
  if (!ready()) return early(size, 4096);
  return told(word_kind::aligned, real.pvalloc_(size), size, 4096);
}

std::size_t malloc_usable_size(void* block) noexcept {
  if (is_early(block)) return early_size(block);
  if (block == nullptr || !ready() || real.malloc_usable_size_ == nullptr) return 0;
  return real.malloc_usable_size_(block);
}

void cfree(void* block) noexcept {
  if (told_of_free(block)) real.free_(block);
}

void free_sized(void* block, std::size_t size) noexcept {
  if (!told_of_free(block)) return;
  real.free_sized_ != nullptr ? real.free_sized_(block, size) : real.free_(block);
}

void free_aligned_sized(void* block, std::size_t alignment, std::size_t size) noexcept {
  if (!told_of_free(block)) return;
  real.free_aligned_sized_ != nullptr ? real.free_aligned_sized_(block, alignment, size) : real.free_(block);
}

}  // extern "C"
#pragma GCC visibility pop
