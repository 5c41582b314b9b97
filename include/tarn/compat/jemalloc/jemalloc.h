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

/* Indices for "arena.<i>.…" and "stats.arenas.<i>.…": all arenas, and those that were destroyed
 * (which have no figures here). */
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

#ifdef __cplusplus
#define JEMALLOC_NOTHROW noexcept
extern "C" {
#else
#define JEMALLOC_NOTHROW
#endif

/* Options, as in MALLOC_CONF; the program may define it. */
extern const char* malloc_conf;
/* Called with each message in place of standard error; null: standard error. */
extern void (*malloc_message)(void* cbopaque, const char* s);

/* At least `size` bytes, which is not 0; null: no memory. */
void* mallocx(size_t size, int flags) JEMALLOC_NOTHROW;
/* Resizes a block, which may move; null: no memory, and the block is unchanged. */
void* rallocx(void* ptr, size_t size, int flags) JEMALLOC_NOTHROW;
/* Resizes a block where it is, to `size` and if possible to `size + extra`. Returns its size afterwards. */
size_t xallocx(void* ptr, size_t size, size_t extra, int flags) JEMALLOC_NOTHROW;
/* The size of a block. */
size_t sallocx(const void* ptr, int flags) JEMALLOC_NOTHROW;
/* Frees a block. */
void dallocx(void* ptr, int flags) JEMALLOC_NOTHROW;
/* Frees a block of `size` bytes, or of the size that was requested. */
void sdallocx(void* ptr, size_t size, int flags) JEMALLOC_NOTHROW;
/* The size that mallocx() would give, without allocating; 0: it would fail. */
size_t nallocx(size_t size, int flags) JEMALLOC_NOTHROW;

/* Reads and writes a value by its name. Returns 0 or an errno. */
int mallctl(const char* name, void* oldp, size_t* oldlenp, void* newp, size_t newlen) JEMALLOC_NOTHROW;
/* Translates a name to numbers, for many calls of mallctlbymib(). */
int mallctlnametomib(const char* name, size_t* mibp, size_t* miblenp) JEMALLOC_NOTHROW;
/* mallctl() by numbers instead of a name. */
int mallctlbymib(const size_t* mib, size_t miblen, void* oldp, size_t* oldlenp, void* newp,
                 size_t newlen) JEMALLOC_NOTHROW;
/* Writes statistics through `write_cb`, or to standard error. */
void malloc_stats_print(void (*write_cb)(void*, const char*), void* cbopaque,
                        const char* opts) JEMALLOC_NOTHROW;
/* The size of a block; 0 for null. */
size_t malloc_usable_size(void* ptr) JEMALLOC_NOTHROW;

#ifdef __cplusplus
}
#endif

#endif /* JEMALLOC_H_ */
