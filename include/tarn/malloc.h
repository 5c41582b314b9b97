/* SPDX-License-Identifier: MIT
 * tarn/malloc.h: tarn's malloc under its own names, its options and its statistics.
 *
 * Including this header replaces nothing. Two libraries provide these functions:
 *   libtarn-api  exports the functions below and nothing else;
 *   libtarn      exports them too, and replaces malloc, free, operator new and delete.
 *
 * Thread safety: every function may be called by any thread at any time, before main and after
 * it, unless its comment says otherwise. None may be called from a signal handler (as in POSIX
 * for malloc). Failure: a null pointer and errno ENOMEM (EINVAL for a bad alignment); a failed
 * call changes nothing. Functions that succeed leave errno alone, and so does tarn_free always.
 * Sizes are in bytes.
 */
#ifndef TARN_MALLOC_H
#define TARN_MALLOC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TARN_API __attribute__((visibility("default")))
#else
#define TARN_API
#endif

#ifdef __cplusplus
#define TARN_NOEXCEPT noexcept
extern "C" {
#else
#define TARN_NOEXCEPT
#endif

/* ---- allocation ------------------------------------------------------------------------------
 * Blocks are aligned to 16 bytes from 16 bytes on, to 8 below. A request of 0 bytes gives a
 * distinct pointer that may be freed. Every byte up to tarn_usable_size may be used. */

TARN_API void* tarn_malloc(size_t size) TARN_NOEXCEPT;
/* Zeroed. Memory that the system has just supplied is not touched. */
TARN_API void* tarn_calloc(size_t count, size_t size) TARN_NOEXCEPT;
/* realloc(p, 0) frees p and returns null, as glibc does. Large blocks grow in place or move their
 * page tables; their bytes are not copied. */
TARN_API void* tarn_realloc(void* block, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_reallocarray(void* block, size_t count, size_t size) TARN_NOEXCEPT;
TARN_API void tarn_free(void* block) TARN_NOEXCEPT;
/* C23. `size` (and `alignment`) must be those of the request; tarn uses them as a hint only. */
TARN_API void tarn_free_sized(void* block, size_t size) TARN_NOEXCEPT;
TARN_API void tarn_free_aligned_sized(void* block, size_t alignment, size_t size) TARN_NOEXCEPT;
/* `alignment` must be a power of two; posix_memalign also wants a multiple of sizeof(void*),
 * returns its error instead of setting errno, and writes *out only on success. */
TARN_API int tarn_posix_memalign(void** out, size_t alignment, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_aligned_alloc(size_t alignment, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_memalign(size_t alignment, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_valloc(size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_pvalloc(size_t size) TARN_NOEXCEPT;
/* Bytes that may be used at `block`, at least those asked for; 0 for null. */
TARN_API size_t tarn_usable_size(const void* block) TARN_NOEXCEPT;
/* The largest size that costs no more memory than `size`: what a buffer that will grow should ask for. What may be
 * used of a block is tarn_usable_size, which for a guarded block (option guarded) is what was asked for. */
TARN_API size_t tarn_good_size(size_t size) TARN_NOEXCEPT;

/* Gives idle memory back to the system now: the calling thread's cache, what other threads have
 * handed over, and all free pages but `keep` bytes of them. Returns the bytes given back. What the
 * background thread is looking at meanwhile follows soon after, if `keep` is 0. Cost: a system call
 * per free range; not for hot paths. */
TARN_API size_t tarn_trim(size_t keep) TARN_NOEXCEPT;

/* ---- statistics ------------------------------------------------------------------------------ */

/* One snapshot, in bytes unless said. Counters are exact when no other thread allocates. */
typedef struct tarn_stats {
  uint64_t version;        /* of this struct: 2 */
  uint64_t reserved;       /* address space taken from the system for blocks */
  uint64_t resident_upper; /* of it and of metadata, at most this much is backed by memory: in_use,
                              free_dirty, metadata, and what was prepared ahead of use. Where the
                              system uses huge pages, each page in use may back 2 MiB around it */
  uint64_t in_use;         /* spans in use: live blocks, and what caches hold of those spans */
  uint64_t cached;         /* free objects in thread caches and depots (part of in_use) */
  uint64_t free_dirty;     /* free pages still backed by memory, waiting for decay */
  uint64_t free_clean;     /* free pages that are not backed, or only prepared ahead of use */
  uint64_t large;          /* live blocks above the largest size class (part of in_use) */
  uint64_t metadata;       /* tarn's own structures */
  uint64_t returned;       /* bytes given back to the system so far */
  uint64_t huge_advised;   /* bytes for which huge pages were asked */
  uint64_t populated;      /* bytes faulted in ahead, in one call for many pages */
  uint64_t threads;        /* threads with a cache now */
  uint64_t refills;        /* magazines filled from spans */
  uint64_t flushes;        /* magazines emptied into spans */
  uint64_t exchanges;      /* magazines handed over whole */
  uint64_t spans_made;     /* spans cut into objects */
  uint64_t spans_freed;    /* spans whose objects all came back, returned to the page heap */
  uint64_t guarded;        /* live guarded blocks (option guarded); not part of reserved or in_use */
  uint64_t guarded_blocks; /* guarded blocks handed out so far */
} tarn_stats;

TARN_API void tarn_get_stats(tarn_stats* out) TARN_NOEXCEPT;
/* The statistics as one JSON object; returns the length that the whole text needs, as snprintf. */
TARN_API size_t tarn_stats_json(char* buffer, size_t capacity) TARN_NOEXCEPT;

/* ---- options ---------------------------------------------------------------------------------
 * Set by the environment before start (TARN_…; ignored in setuid programs) or by tarn_set_option.
 * The table of options is in docs/options.md and comes from tarn_option_at. */

typedef struct tarn_option {
  const char* name;     /* "decay_ms"; the environment variable is TARN_DECAY_MS */
  const char* value;    /* in effect now; valid until the next call by this thread */
  const char* standard; /* the default */
  const char* accepts;  /* "milliseconds, -1 for never" */
  const char* meaning;  /* one sentence */
  const char* source;   /* "default", "environment", "program" */
} tarn_option;

/* Fills *out with option number `index`; 0 on success, ENOENT behind the last. */
TARN_API int tarn_option_at(size_t index, tarn_option* out) TARN_NOEXCEPT;
/* 0 on success, ENOENT for an unknown name, EINVAL for a bad value. */
TARN_API int tarn_set_option(const char* name, const char* value) TARN_NOEXCEPT;

/* "1.2.3" */
TARN_API const char* tarn_version(void) TARN_NOEXCEPT;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TARN_MALLOC_H */
