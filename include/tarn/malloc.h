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
 * call changes nothing. Functions that succeed leave errno alone; tarn_free never changes it.
 * Sizes are in bytes.
 * Cost: small requests are served from arrays of free objects (magazines) of the calling thread,
 * without a lock; a miss takes a lock, and may call the system.
 * Not for mixing: a block of these functions goes back by these functions. With libtarn-api the
 * program's own free() is another allocator's and ends the process or corrupts its heap.
 * (Magazines: Bonwick and Adams, "Magazines and Vmem", USENIX 2001; the tiers: docs/explanation/tour.md.)
 */
#ifndef TARN_MALLOC_H
#define TARN_MALLOC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TARN_API __attribute__((__visibility__("default")))
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
 * Blocks of 16 bytes and more are aligned to 16 bytes, smaller ones to 8. A request of 0 bytes
 * gives a distinct pointer that may be freed. Every byte up to tarn_usable_size may be used. */

/* At least `size` bytes, whose content is indeterminate. */
TARN_API void* tarn_malloc(size_t size) TARN_NOEXCEPT;
/* `count` times `size` bytes, zeroed; null with ENOMEM if the product overflows. Large blocks:
 * pages that the system has just supplied are zero already, and are not written to. */
TARN_API void* tarn_calloc(size_t count, size_t size) TARN_NOEXCEPT;
/* realloc(p, 0) frees p and returns null, as glibc does. To fewer bytes it never fails.
 * A large block grows in place where the
 * pages after it are free, or by moving its page tables where it has a mapping of its own; else its
 * bytes are copied to a longer block. */
TARN_API void* tarn_realloc(void* block, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_reallocarray(void* block, size_t count, size_t size) TARN_NOEXCEPT;
/* Null is allowed. A pointer that is not a live block ends the process with a message where tarn
 * can tell (docs/design/0005). */
TARN_API void tarn_free(void* block) TARN_NOEXCEPT;
/* C23. `size` (and `alignment`) must be those of the request; tarn does not look at them. */
TARN_API void tarn_free_sized(void* block, size_t size) TARN_NOEXCEPT;
TARN_API void tarn_free_aligned_sized(void* block, size_t alignment, size_t size) TARN_NOEXCEPT;
/* `alignment` must be a power of two, for posix_memalign also a multiple of sizeof(void*).
 * posix_memalign returns its error, and writes *out only on success. valloc aligns to a page of the
 * system; pvalloc also rounds the size up to whole pages. */
TARN_API int tarn_posix_memalign(void** out, size_t alignment, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_aligned_alloc(size_t alignment, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_memalign(size_t alignment, size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_valloc(size_t size) TARN_NOEXCEPT;
TARN_API void* tarn_pvalloc(size_t size) TARN_NOEXCEPT;
/* Bytes that may be used at `block`, at least those asked for; 0 for null. Ends the process on a
 * pointer that is not a live block. */
TARN_API size_t tarn_usable_size(const void* block) TARN_NOEXCEPT;
/* The largest size that takes no more memory than `size`: a buffer that will grow should ask for this much. A guarded
 * block (option guarded) has only the bytes that were asked for; tarn_usable_size is right for every block. */
TARN_API size_t tarn_good_size(size_t size) TARN_NOEXCEPT;

/* Gives idle memory back to the system now: the calling thread's cache, the full magazines that
 * other threads have handed over, and all free pages except `keep` bytes of them; if `keep` is 0, also
 * pages between live blocks on which all blocks are free. Returns the bytes given back. If `keep` is 0,
 * pages that the background thread is purging at that moment follow soon after. A server that forks workers
 * calls it once before: else each of them gives back what was free, and copies pages for that. Cost: a system
 * call per free range; not for hot paths. */
TARN_API size_t tarn_trim(size_t keep) TARN_NOEXCEPT;

/* ---- the limit ---------------------------------------------------------------------------------
 * Above the soft limit (option limit; by default 15/16 of the control group's) tarn's caches empty, free memory goes back
 * at once, and the callbacks below run, so that a program can drop caches of its own. Above the hard limit, which there is
 * only on request, allocations fail as they do without memory. docs/tutorials/below-the-limit.md */

/* In bytes. UINT64_MAX: there is no such limit. */
typedef struct tarn_pressure {
  uint64_t level; /* 0: below the soft limit; 1: above it; 2: the hard limit has just refused a request */
  uint64_t
      used; /* what the soft limit is compared with: what tarn has backed if the limit is in bytes, else what the
                      control group uses, without file pages that nobody uses */
  uint64_t soft;
  uint64_t hard;   /* of what tarn has backed */
  uint64_t excess; /* what must go before the level falls */
} tarn_pressure;

/* The program owns the structure, so it never grows. */
typedef struct tarn_pressure_callback {
  void (*call)(void* context, const tarn_pressure* now); /* must not throw */
  void* context;
  struct tarn_pressure_callback* next; /* the library's */
} tarn_pressure_callback;

/* From now on calls callback->call(callback->context, …) while memory is above the soft limit, again and again until it is
 * below, at most every 100 ms or when the heap has grown again, and when the hard limit refuses a request. The pause doubles,
 * to one second at most, while the calls change nothing. It is called by
 * a thread of the library that holds no lock, never inside malloc, and that exists while callbacks are registered; so it
 * may take the program's locks, allocate and free. A thread that allocates above the soft limit waits for the callbacks
 * for at most 20 ms, so they should return quickly, or free in steps. Requires: *callback stays in place until
 * tarn_off_pressure. Returns 1; 0 if no such thread can be started (option background off, a seccomp
 * filter): then ask tarn_get_pressure from time to time instead. A child of fork has no such thread until it calls this
 * function or tarn_get_pressure. Not for signal handlers. */
TARN_API int tarn_on_pressure(tarn_pressure_callback* callback) TARN_NOEXCEPT;
/* Ends that. Returns when a call that runs has returned, except inside that call; so do not call it with a lock that the
 * callback takes. A callback that is not registered is ignored. */
TARN_API void tarn_off_pressure(tarn_pressure_callback* callback) TARN_NOEXCEPT;
/* Looks now. Cost: some ten files of /proc and /sys are read, 0.1 to 0.3 ms. */
TARN_API void tarn_get_pressure(tarn_pressure* out) TARN_NOEXCEPT;

/* ---- moving blocks out of sparse memory -------------------------------------------------------
 * A span of memory stays in use while one of its blocks is live. A program that can change its
 * pointers to a block may move it, so that sparse spans become empty and serve other sizes or go
 * back to the system:
 *     if (tarn_would_move(p, 1.0)) { void* q = tarn_move(p); if (q) { …all pointers to p become q… } }
 * The threads that free blocks hold some back in their caches; tarn_trim(0) of each gives them back. */

/* Whether moving the block would help: it lies in a span that is at most `ratio` times as full as
 * the partly filled spans of its size on average, there are at least two of them, and the next block
 * would not come from the same span. Larger ratios move more: 1.0 moves from every span below the
 * mean, 0.5 from those that are less than half as full. False for null, for blocks above 256 KiB and
 * for a pointer that is not a block. Cost: the lock of the block's size class, held for some ten
 * instructions. */
TARN_API int tarn_would_move(const void* block, double ratio) TARN_NOEXCEPT;
/* The same for `count` blocks: results[i] becomes 1 or 0. Returns the number of ones. Cost: the lock
 * once for each block. */
TARN_API size_t tarn_would_move_each(const void* const* blocks, size_t count, double ratio,
                                     unsigned char* results) TARN_NOEXCEPT;
/* Moves the block into the fullest span of its size, past the threads' caches, and returns where its
 * bytes are now; the old pointer is freed. The alignment that the block was allocated with is kept.
 * Null with ENOMEM: no memory; the block is where it was. Returns `block` itself if tarn_usable_size(block)
 * exceeds 256 KiB, or its alignment 8 KiB. `block` must not be null. Cost: the lock of the size class
 * twice, and the copy. */
TARN_API void* tarn_move(void* block) TARN_NOEXCEPT;

/* ---- what live blocks keep from going back ----------------------------------------------------
 * A span of memory stays in use while one of its blocks is live; the free bytes beside it are pinned. They stay resident, but
 * for whole pages of them that have been idle for a second or so. Which place in the code allocated such blocks: tarn show
 * --by pinned. */

/* Of one size of blocks, in bytes unless stated otherwise. The library owns the structure; new figures come at the end. */
typedef struct tarn_pinned {
  uint64_t object_size;
  uint64_t spans;        /* number, without those in which no block is live; 0 for pieces of divided spans */
  uint64_t sparse_spans; /* number of those that have room */
  uint64_t span_bytes;   /* of these spans */
  uint64_t taken;        /* number of blocks in the program's hands, and in magazines of caches */
  uint64_t pinned_bytes; /* span_bytes less the blocks that are taken */
} tarn_pinned;

/* Calls visit(context, figures) for each size that has spans. visit may allocate. Cost: a lock for each size. */
TARN_API void tarn_visit_pinned(void (*visit)(void* context, const tarn_pinned* pinned),
                                void* context) TARN_NOEXCEPT;
/* The block's part of the free bytes of its span, which all blocks in it share equally. 0 for null, for blocks above
 * 256 KiB and for a pointer that is not a block. Cost: as tarn_would_move. */
TARN_API size_t tarn_pinned_by(const void* block) TARN_NOEXCEPT;

/* ---- statistics ------------------------------------------------------------------------------ */

/* One snapshot, in bytes unless stated otherwise. New figures come at the end. The figures are exact when no other thread
 * allocates meanwhile. */
typedef struct tarn_stats {
  uint64_t version;        /* of this struct: 2 */
  uint64_t reserved;       /* address space taken from the system for blocks */
  uint64_t resident_upper; /* upper bound of the memory behind `reserved` and `metadata`: in_use but
                              for pages of free objects that went back to the system, free_dirty,
                              metadata, and pages faulted in ahead of use; without the page map,
                              which takes about 0.3 % of `reserved`. Where the
                              system uses huge pages, each page in use may back 2 MiB around it */
  uint64_t in_use;         /* spans in use: live blocks, and free objects in caches and spans */
  uint64_t cached;         /* free objects in caches of threads and processors, and in depots (part of
                              in_use) */
  uint64_t free_dirty;     /* free pages still backed by memory, waiting for decay */
  uint64_t free_clean;     /* free pages that are not backed, or only faulted in ahead of use */
  uint64_t large;          /* live blocks above the largest size class (part of in_use) */
  uint64_t metadata;       /* tarn's own structures */
  uint64_t returned;       /* bytes given back to the system so far */
  uint64_t huge_advised;   /* bytes for which huge pages were asked */
  uint64_t populated;      /* bytes faulted in ahead, in one call for many pages */
  uint64_t threads;        /* threads with a cache now, of their own or shared */
  uint64_t refills;        /* magazines filled from spans */
  uint64_t flushes;        /* magazines emptied into spans */
  uint64_t exchanges;      /* full magazines passed between a thread cache and a depot */
  uint64_t spans_made;     /* spans cut into objects */
  uint64_t spans_freed;    /* spans returned to the page heap because all their objects were free */
  uint64_t guarded;        /* live guarded blocks (option guarded); not part of reserved or in_use */
  uint64_t guarded_blocks; /* guarded blocks handed out so far */
} tarn_stats;

/* Writes the first `size` bytes of these figures; a program passes sizeof(tarn_stats). So it may run with a library that
 * has more figures, and with one that has fewer, whose missing figures are 0. Returns the library's own sizeof(tarn_stats). */
TARN_API size_t tarn_get_stats_sized(tarn_stats* out, size_t size) TARN_NOEXCEPT;
/* The same for the figures from `version` to `guarded_blocks`, for ever: those that a later version of this header adds
 * behind them are written by tarn_get_stats_sized only. */
TARN_API void tarn_get_stats(tarn_stats* out) TARN_NOEXCEPT;
/* Writes the statistics as one JSON object, cut to `capacity` bytes with the null byte: the fields
 * above, `free_in_spans`, the part of `in_use` in free objects between live ones, `processor_cached`, the part of `cached` in the caches of processors, and
 * `processor_threads`, the threads that use these (option cpu_caches). Returns the
 * length of the whole text without its null byte, as snprintf does. */
TARN_API size_t tarn_stats_json(char* buffer, size_t capacity) TARN_NOEXCEPT;

/* ---- the heap profile -------------------------------------------------------------------------
 * What the program has allocated and where, estimated from samples of its allocations: malloc and its
 * kin and operator new, not pools, recyclers, buffer pools and arenas. Each allocated byte is a sample
 * with the probability 1 / rate, so a block of s bytes is followed with 1 - exp(-s / rate), and stands
 * for the reciprocal of that in blocks of its size (docs/design/0030). Off it costs nothing; on, at the
 * default rate, a few microseconds for each 512 KiB allocated, but at most about 1,000 times a second:
 * while more samples are due, only some are followed, and stand for the others too. Sizes are those that
 * blocks take, as tarn_usable_size tells them. */

/* Begins to sample; `rate`: the bytes between two samples on average, up to 1 GiB; 0: 512 KiB, and at most about 1,000
 * samples a second. The same as the option profile. What is known from before stays known. All threads follow at their
 * next allocations. 0 on success, EINVAL for a rate that is too high. */
TARN_API int tarn_profile_start(size_t rate) TARN_NOEXCEPT;
/* Takes no further samples. The blocks that are followed stay so until they are freed. */
TARN_API void tarn_profile_stop(void) TARN_NOEXCEPT;

/* Writes the profile in the format of pprof (profile.proto, not compressed) by calls of write(context, data, size), at
 * most 4 KiB each: blocks and bytes allocated and live, live bytes that are resident, and lifetimes, for each call path.
 * `go tool pprof FILE` shows it; names come from the program's files. write may allocate. 0 on success; ENOMEM: there
 * is no memory for it, and nothing was written. Not in signal handlers. Cost: some milliseconds, and a system call for
 * each live sample; it holds a lock for which threads with a sample wait, for about a microsecond per call path. */
TARN_API int tarn_profile_write(void (*write)(void* context, const char* data, size_t size),
                                void* context) TARN_NOEXCEPT;
/* The same, into a file. 0 on success; ENOMEM, or what the system said. */
TARN_API int tarn_profile_dump(int fd) TARN_NOEXCEPT;

enum { tarn_profile_lifetimes = 48 };
/* A call path, and what the samples that were taken there stand for. New figures come at the end; the library owns the
 * structure. */
typedef struct tarn_profile_site {
  const uintptr_t* frames; /* return addresses, innermost first */
  uint64_t frame_count;    /* 0: all paths that found no room in the table (8,192 paths) */
  uint64_t live_blocks;
  uint64_t live_bytes;
  uint64_t resident_bytes; /* of live_bytes; 0 where the system does not tell */
  uint64_t blocks;         /* all that were allocated */
  uint64_t bytes;
  /* From which these figures come; the relative error is about 1 / sqrt(samples), and more if the program allocated
   * gigabytes a second at times, as samples of these times stand for more than others (rate 0). */
  uint64_t samples;
  uint64_t live_samples;
  uint64_t lifetime_ms; /* the sum over the freed blocks */
  const uint32_t*
      lifetimes;   /* tarn_profile_lifetimes numbers: of freed samples that lived for 2^(i-1) to 2^i ns */
  uint64_t number; /* of the path, from 1 on; it never changes. 0: all paths that found no room */
} tarn_profile_site;
/* Calls visit(context, site) for each call path with samples, all at the figures of one moment. visit may allocate. 0 on
 * success, ENOMEM if there is no memory for them. Cost: as tarn_profile_write. */
TARN_API int tarn_visit_profile(void (*visit)(void* context, const tarn_profile_site* site),
                                void* context) TARN_NOEXCEPT;

/* ---- counting allocations --------------------------------------------------------------------
 * For tests (tarn/testing.hpp): how often the calling thread asks for memory, and for how much. */

enum { tarn_counted_sizes = 8 };
typedef struct tarn_allocation_count {
  uint64_t allocations; /* calls that asked for a block; of realloc those whose block has moved */
  /* That they asked for; of aligned requests, rounded up to the alignment's size class, and of a realloc that grows, an
   * eighth more than the block had at least. */
  uint64_t bytes;
  uint64_t sizes[tarn_counted_sizes];  /* the bytes of the first allocations, in their order */
  struct tarn_allocation_count* outer; /* the library's */
} tarn_allocation_count;

/* Sets *count to zero and counts the calling thread's allocations in it until tarn_count_end. Counts nest: each counts what
 * the inner ones count. Requires: *count stays where it is until then. While a thread counts, each of its allocations takes
 * the slow path of malloc (some 30 ns), and none is a guarded one; other threads are not affected. Not counted: free, and
 * objects of pools, recyclers, buffer pools and arenas. */
TARN_API void tarn_count_begin(tarn_allocation_count* count) TARN_NOEXCEPT;
/* Ends the innermost count. Ends the process with a message if *count is not the calling thread's innermost count. */
TARN_API void tarn_count_end(tarn_allocation_count* count) TARN_NOEXCEPT;

/* ---- options ---------------------------------------------------------------------------------
 * Set by the environment before start (TARN_…; ignored in setuid programs) or by tarn_set_option.
 * The table of options is in docs/reference/options.md and comes from tarn_option_at. */

/* The program owns the structure, so it never grows. */
typedef struct tarn_option {
  const char* name;     /* "decay_ms"; the environment variable is TARN_DECAY_MS */
  const char* value;    /* in effect now; valid until this thread next calls tarn_option_at */
  const char* standard; /* the default */
  const char* accepts;  /* "milliseconds, -1 for never" */
  const char* meaning;  /* one sentence */
  const char* source;   /* "default", "environment", "program", "control" (tarn control) */
} tarn_option;

/* Fills *out with option number `index`; 0 on success, ENOENT past the last one. */
TARN_API int tarn_option_at(size_t index, tarn_option* out) TARN_NOEXCEPT;
/* 0 on success, ENOENT for an unknown name, EINVAL for a bad value. */
TARN_API int tarn_set_option(const char* name, const char* value) TARN_NOEXCEPT;

/* "1.2.3" */
TARN_API const char* tarn_version(void) TARN_NOEXCEPT;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TARN_MALLOC_H */
