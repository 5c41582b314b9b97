// SPDX-License-Identifier: MIT
// Macros for what the engine needs from the compiler beyond the language.
#pragma once

#define TARN_LIKELY(x) __builtin_expect(!!(x), 1)
#define TARN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TARN_ALWAYS_INLINE inline __attribute__((always_inline))
// For slow paths: never inlined, and placed apart from the hot code.
#define TARN_COLD __attribute__((noinline, cold))
#define TARN_NOINLINE __attribute__((noinline))

#if defined(__SANITIZE_THREAD__)
#define TARN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TARN_TSAN 1
#endif
#endif
#ifndef TARN_TSAN
#define TARN_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TARN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TARN_ASAN 1
#endif
#endif
#ifndef TARN_ASAN
#define TARN_ASAN 0
#endif

// A load that may race with a store only in a program with an error, or whose stale value does no harm. An aligned
// machine word does not tear, and GCC 12 does not make a relaxed atomic load part of another instruction. (For
// ThreadSanitizer it is one.)
#if TARN_TSAN
#define TARN_PLAIN_LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#else
#define TARN_PLAIN_LOAD(word) (word)
#endif

// Internal checks: on in the dev and sanitizer presets.
#ifndef TARN_CHECKS
#define TARN_CHECKS 0
#endif
