/* SPDX-License-Identifier: MIT
 * jemalloc/jemalloc.h: the names of jemalloc 5.3 that libtarn-jemalloc provides, for programs that are built where
 * jemalloc's own header is not installed. A program built with jemalloc's header needs no other one: constants and types
 * have the same values here. docs/reference/jemalloc-api.md says what each function does, and in what it differs.
 *
 * The folder of this file's folder goes into the include path (pkg-config --cflags tarn-jemalloc).
 */
#ifndef JEMALLOC_H_
#define JEMALLOC_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

/* Defined by this header only. */
#define JEMALLOC_BY_TARN 1

#define JEMALLOC_VERSION "5.3.0-0-gtarn"
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 0
#define JEMALLOC_VERSION_NREV 0
#define JEMALLOC_VERSION_GID "tarn"

#define MALLOCX_LG_ALIGN(la) ((int)(la))
#define MALLOCX_ALIGN(a) \
  ((int)(((size_t)(a) < (size_t)INT_MAX) ? ffs((int)(a)) - 1 : ffs((int)(((size_t)(a)) >> 32)) + 31))
#define MALLOCX_ZERO ((int)0x40)
#define MALLOCX_TCACHE(tc) ((int)(((tc) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(a) ((((int)(a)) + 1) << 20)

/* Indices for "arena.<i>.…" and "stats.arenas.<i>.…": all arenas, and those that were destroyed. */
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

#ifdef __cplusplus
#define JEMALLOC_NOTHROW noexcept
extern "C" {
#else
#define JEMALLOC_NOTHROW
#endif

extern const char* malloc_conf;
extern void (*malloc_message)(void* cbopaque, const char* s);

void* mallocx(size_t size, int flags) JEMALLOC_NOTHROW;
void* rallocx(void* ptr, size_t size, int flags) JEMALLOC_NOTHROW;
size_t xallocx(void* ptr, size_t size, size_t extra, int flags) JEMALLOC_NOTHROW;
size_t sallocx(const void* ptr, int flags) JEMALLOC_NOTHROW;
void dallocx(void* ptr, int flags) JEMALLOC_NOTHROW;
void sdallocx(void* ptr, size_t size, int flags) JEMALLOC_NOTHROW;
size_t nallocx(size_t size, int flags) JEMALLOC_NOTHROW;

int mallctl(const char* name, void* oldp, size_t* oldlenp, void* newp, size_t newlen) JEMALLOC_NOTHROW;
int mallctlnametomib(const char* name, size_t* mibp, size_t* miblenp) JEMALLOC_NOTHROW;
int mallctlbymib(const size_t* mib, size_t miblen, void* oldp, size_t* oldlenp, void* newp,
                 size_t newlen) JEMALLOC_NOTHROW;
void malloc_stats_print(void (*write_cb)(void*, const char*), void* cbopaque,
                        const char* opts) JEMALLOC_NOTHROW;
size_t malloc_usable_size(void* ptr) JEMALLOC_NOTHROW;

#ifdef __cplusplus
}
#endif

#endif /* JEMALLOC_H_ */
