// SPDX-License-Identifier: MIT
// Macros and helpers of tarn's C++ headers that depend on the compiler and on the build. Defines no type.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__GNUC__)
#define TARN_DETAIL_LIKELY(x) __builtin_expect(!!(x), 1)
#define TARN_DETAIL_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TARN_DETAIL_INLINE inline __attribute__((__always_inline__))
#define TARN_DETAIL_COLD __attribute__((__noinline__, __cold__))
#else
#error "tarn supports GCC and Clang"
#endif

// After a member function: what it returns ends with the object. Clang warns where that is a temporary.
#if defined(__clang__)
#define TARN_DETAIL_LIFETIME_BOUND [[clang::lifetimebound]]
#else
#define TARN_DETAIL_LIFETIME_BOUND
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TARN_DETAIL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TARN_DETAIL_ASAN 1
#endif
#endif
#ifndef TARN_DETAIL_ASAN
#define TARN_DETAIL_ASAN 0
#endif

#if TARN_DETAIL_ASAN
extern "C" void __asan_poison_memory_region(void const volatile* address, std::size_t size);
extern "C" void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
#endif

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

// Aborts where exceptions are disabled.
[[noreturn]] TARN_DETAIL_COLD inline void throw_bad_alloc() {
#if defined(__cpp_exceptions)
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

// Tell AddressSanitizer that the memory may not be accessed, or may be again. No code without the sanitizer.
TARN_DETAIL_INLINE void poison([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_DETAIL_ASAN
  __asan_poison_memory_region(memory, bytes);
#endif
}
TARN_DETAIL_INLINE void unpoison([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_DETAIL_ASAN
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
