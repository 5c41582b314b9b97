// SPDX-License-Identifier: MIT
// exported: the names of jemalloc that this layer exports, declared as jemalloc's own header has them.
#pragma once

#include <stddef.h>

#include "tarn/malloc.h"

extern "C" {

// Options that the program has compiled in; a program that defines the variable overrides this one.
extern TARN_API const char* malloc_conf;
// Where messages go; null: standard error.
extern TARN_API void (*malloc_message)(void* context, const char* text);

TARN_API void* mallocx(size_t size, int flags) noexcept;
TARN_API void* rallocx(void* block, size_t size, int flags) noexcept;
TARN_API size_t xallocx(void* block, size_t size, size_t extra, int flags) noexcept;
TARN_API size_t sallocx(const void* block, int flags) noexcept;
TARN_API void dallocx(void* block, int flags) noexcept;
TARN_API void sdallocx(void* block, size_t size, int flags) noexcept;
TARN_API size_t nallocx(size_t size, int flags) noexcept;

TARN_API int mallctl(const char* name, void* old, size_t* old_length, void* fresh,
                     size_t fresh_length) noexcept;
TARN_API int mallctlnametomib(const char* name, size_t* mib, size_t* length) noexcept;
TARN_API int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_length, void* fresh,
                          size_t fresh_length) noexcept;
TARN_API void malloc_stats_print(void (*write)(void* context, const char* text), void* context,
                                 const char* options) noexcept;

}  // extern "C"
