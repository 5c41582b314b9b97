// SPDX-License-Identifier: MIT
// Hooks of the malloc family, in front of the program's own functions.
#include <errno.h>

#include <cstring>

#include "profiler/record/origin.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

// False while the program's own functions are being looked up.
bool ready() { return __builtin_expect(real.malloc != nullptr, 1) != 0 || find_real_functions(); }

void* early(std::size_t size, std::size_t alignment) {
  void* block = early_allocate(size, alignment);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

// The hooks below are short, and save no registers, as long as nothing is recorded: all else is done in functions of their own.

// Lets the program's malloc serve the call, and records the block. Called where wants_allocation() said so, or where the call
// may be an inner one.
template <class call>
[[gnu::noinline]] void* recorded_slowly(word_kind kind, call forward, std::size_t size, std::size_t alignment,
                                        const call_origin& origin) {
  if (self.in_new != 0 && (is_inner_call(origin.return_address, true) || !wants_allocation(size)))
    return forward();
  call_time time;
  void* const block = run_timed(wants_time(size), time, forward);
  allocated(kind, block, size, alignment, origin, time);
  return block;
}

template <class call>
[[gnu::always_inline]] inline void* recorded(word_kind kind, call forward, std::size_t size,
                                             std::size_t alignment) {
  if (__builtin_expect(self.in_new != 0, 0) != 0 || wants_allocation(size))
    return recorded_slowly(kind, forward, size, alignment, caller());
  return forward();
}

template <class call>
[[gnu::noinline]] void recorded_free_slowly(call forward, void* block, std::uintptr_t return_address) {
  if (is_inner_call(return_address, true)) return forward();
  record_free(word_kind::free, forward, block);
}

template <class call>
[[gnu::always_inline]] inline void recorded_free(call forward, void* block) {
  if (__builtin_expect(block == nullptr || is_early(block), 0) != 0) return;
  if (__builtin_expect(self.in_new != 0, 0) != 0 || !is_free_of_no_interest(block))
    return recorded_free_slowly(forward, block, return_address());
  forward();
}

// Requires that `block` is not null.
template <class call>
[[gnu::always_inline]] inline void* recorded_realloc(call forward, void* block, std::size_t size) {
  if (__builtin_expect(self.in_new != 0, 0) != 0 && is_inner_call(return_address(), true)) return forward();
  const bool begun = wants_free(block) && realloc_begins(block);
  const bool wanted = wants_allocation(size);
  if (!wanted && !begun) return forward();
  call_time time;
  void* const moved = run_timed(wanted && wants_time(size), time, forward);
  realloc_ends(begun, moved, size, caller(), time);
  return moved;
}

// realloc of a block that was allocated before the program's malloc was known: moves it out of the early store.
void* move_early(void* block, std::size_t size) {
  void* moved = ready() ? real.malloc(size) : early(size, 16);
  if (moved == nullptr) return nullptr;
  const std::size_t old = early_size(block);
  return std::memcpy(moved, block, old < size ? old : size);
}

}  // namespace

// Parameters have the project's names, not libc's. NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t size) noexcept {
  if (!ready()) return early(size, 16);
  return recorded(
      word_kind::malloc, [=] { return real.malloc(size); }, size, 0);
}

void free(void* block) noexcept {
  recorded_free([=] { real.free(block); }, block);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  if (!ready()) {
    std::size_t all = 0;
    return __builtin_mul_overflow(count, size, &all) ? nullptr : early(all, 16);
  }
  return recorded(
      word_kind::calloc, [=] { return real.calloc(count, size); }, count * size, 0);
}

void* realloc(void* block, std::size_t size) noexcept {
  if (is_early(block)) return move_early(block, size);
  if (!ready()) return early(size, 16);
  if (block == nullptr)
    return recorded(
        word_kind::malloc, [=] { return real.realloc(nullptr, size); }, size, 0);
  return recorded_realloc([=] { return real.realloc(block, size); }, block, size);
}

void* reallocarray(void* block, std::size_t count, std::size_t size) noexcept {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, size, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (is_early(block)) return move_early(block, all);
  if (!ready()) return early(all, 16);
  if (block == nullptr)
    return recorded(
        word_kind::malloc, [=] { return real.realloc(nullptr, all); }, all, 0);
  return recorded_realloc([=] { return real.realloc(block, all); }, block, all);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  if (!ready()) {
    void* block = early_allocate(size, alignment);
    if (block != nullptr) *out = block;
    return block != nullptr ? 0 : ENOMEM;
  }
  int result = 0;
  recorded(
      word_kind::aligned,
      [&]() -> void* {
        result = real.posix_memalign(out, alignment, size);
        return result == 0 ? *out : nullptr;
      },
      size, alignment);
  return result;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  if (!ready()) return early(size, alignment);
  return recorded(
      word_kind::aligned, [=] { return real.aligned_alloc(alignment, size); }, size, alignment);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  if (!ready()) return early(size, alignment);
  return recorded(
      word_kind::aligned, [=] { return real.memalign(alignment, size); }, size, alignment);
}

void* valloc(std::size_t size) noexcept {
  if (!ready()) return early(size, 4096);
  return recorded(
      word_kind::aligned, [=] { return real.valloc(size); }, size, 4096);
}

void* pvalloc(std::size_t size) noexcept {
  if (!ready()) return early(size, 4096);
  return recorded(
      word_kind::aligned, [=] { return real.pvalloc(size); }, size, 4096);
}

std::size_t malloc_usable_size(void* block) noexcept {
  if (is_early(block)) return early_size(block);
  if (block == nullptr || !ready() || real.malloc_usable_size == nullptr) return 0;
  return real.malloc_usable_size(block);
}

void cfree(void* block) noexcept {
  recorded_free([=] { real.free(block); }, block);
}

void free_sized(void* block, std::size_t size) noexcept {
  recorded_free([=] { real.free_sized != nullptr ? real.free_sized(block, size) : real.free(block); }, block);
}

void free_aligned_sized(void* block, std::size_t alignment, std::size_t size) noexcept {
  recorded_free(
      [=] {
        real.free_aligned_sized != nullptr ? real.free_aligned_sized(block, alignment, size)
                                           : real.free(block);
      },
      block);
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
