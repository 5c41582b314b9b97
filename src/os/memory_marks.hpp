// SPDX-License-Identifier: MIT
// memory_marks: tells the sanitizers and valgrind which memory of typed pools, recyclers and buffer pools may be
// accessed. A few instructions without effect in a process without such a checker; for valgrind no code if its header
// was missing when the library was built.
// Thread safety: any thread.
#pragma once

#include <cstddef>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define TARN_VALGRIND 1
#else
#define TARN_VALGRIND 0
#endif

extern "C" {
// Functions of AddressSanitizer; null in a program without it.
[[gnu::weak]] void __asan_poison_memory_region(void const volatile* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
// Functions of LeakSanitizer; null without it. Spans must be registered: otherwise LeakSanitizer does not search them
// for pointers, and reports a block as a leak if only pooled objects point to it.
[[gnu::weak]] void __lsan_register_root_region(const void* begin, std::size_t bytes);
[[gnu::weak]] void __lsan_unregister_root_region(const void* begin, std::size_t bytes);
}

namespace tarn::memory_marks {

// From now on, LeakSanitizer searches the memory for pointers.
inline void register_leak_root(void* memory, std::size_t bytes) {
  if (__lsan_register_root_region != nullptr) __lsan_register_root_region(memory, bytes);
}
// Requires: the same range as passed to register_leak_root().
inline void unregister_leak_root(void* memory, std::size_t bytes) {
  if (__lsan_unregister_root_region != nullptr) __lsan_unregister_root_region(memory, bytes);
}

// AddressSanitizer reports every access to the memory until unpoison().
inline void poison(void* memory, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(void* memory, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(memory, bytes);
}

// NOLINTBEGIN(cppcoreguidelines-pro-type-cstyle-cast,hicpp-no-assembler): the header's macros use both

// For valgrind: the memory may not be accessed.
inline void hide([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_NOACCESS(memory, bytes));
#endif
}
// For valgrind: the memory may be accessed, and its content is initialised.
inline void show([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(memory, bytes));
#endif
}
// For valgrind: the memory may be accessed, but its content is uninitialised.
inline void renew([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes));
#endif
}

// NOLINTEND(cppcoreguidelines-pro-type-cstyle-cast,hicpp-no-assembler)

}  // namespace tarn::memory_marks
