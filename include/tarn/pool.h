/* SPDX-License-Identifier: MIT
 * tarn/pool.h: pools, recyclers and buffer pools without templates, for C and for bindings of other languages. In C++ use
 * tarn/pool.hpp, tarn/recycler.hpp and tarn/buffer_pool.hpp: their templates have the hits inline, and know the types.
 *
 *     tarn_pool_options options = TARN_POOL_OPTIONS;
 *     options.object_size = sizeof(struct order);
 *     options.alignment = _Alignof(struct order);
 *     tarn_pool* pool = tarn_pool_create(&options);
 *     struct order* one = tarn_pool_allocate(pool);
 *     tarn_pool_deallocate(one);
 *     tarn_pool_destroy(pool);
 *
 * A pool's objects are slots of one size and alignment, cut from spans of the engine's page heap. A recycler keeps built objects
 * for their next user. A buffer is a span of its own; one that is given back stays whole and backed by memory in its pool.
 *
 * Thread safety: every function may be called by any thread, unless its comment says otherwise; none in a signal handler.
 * Failure: null or 0, with errno; a failed call changes nothing. What succeeds leaves errno alone. None throws.
 * Cost: a hit in a magazine of the thread some 10 ns (templates: 2 to 4 ns); a miss takes a lock.
 * Structures that the program fills begin with their size, and of statistics the program passes the size; later versions have
 * more members at the end. Units: bytes, unless a name or a comment says otherwise. Names are copied, and need not end with a
 * null byte.
 * Not for: few objects, or objects of many sizes: use malloc.
 */
#ifndef TARN_POOL_H
#define TARN_POOL_H

#include "tarn/malloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pools ---------------------------------------------------------------------------------- */

typedef struct tarn_pool tarn_pool;                 /* the library's */
typedef struct tarn_pool_bin tarn_pool_bin;         /* for the templates: tarn/detail/pool_bin.hpp */
typedef struct tarn_pool_own_bin tarn_pool_own_bin; /* for the templates, too */

/* The first slot begins at its span's start, each further one at the end of the one before it. So a slot also has the
 * alignment of the largest power of two that divides its size, up to that of a page. */
typedef struct tarn_pool_options {
  size_t size; /* sizeof(tarn_pool_options) */
  size_t object_size;
  size_t alignment;        /* a power of two */
  const char* name;        /* in statistics and messages */
  size_t name_length;      /* of it; 0: no name */
  size_t objects_per_span; /* at least; 0: decided by the span's size */
  size_t initial_capacity; /* objects whose memory is taken at once */
  size_t magazine_length;  /* most slots in one magazine, up to 252; 0: decided by the slot size */
  size_t limit;            /* of all spans; 0: none */
  unsigned shards;         /* most shards over which threads are spread, up to 64; 0: 32 */
  int huge_pages;          /* not 0: spans of 2 MiB on huge pages */
  int checked;             /* not 0: detects misuse; slow */
  int single_thread;       /* not 0: used by one thread at a time: one bin, no shards */
  tarn_pool_own_bin*
      own_bin; /* for the templates, else null: memory for the bin of a pool of one thread, valid until its end */
  const void* owner; /* the object whose destructor calls tarn_pool_destroy; null: unknown */
} tarn_pool_options;

#define TARN_POOL_OPTIONS \
  { sizeof(tarn_pool_options), 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL }

typedef struct tarn_pool_stats {
  uint64_t live;   /* objects in the program's hands */
  uint64_t peak;   /* upper bound of the most live objects at once: slots outside of spans, seen at misses */
  uint64_t bytes;  /* of the pool's spans */
  uint64_t cached; /* free slots in magazines, of threads or handed over */
  /* Slots that misses have loaded into threads' magazines, without those that served the misses themselves: the
   * allocations that can then be served without a further miss. A slot that is freed and allocated again inside one
   * magazine counts once, as the fast path keeps no counter. */
  uint64_t hits;
  uint64_t refills;      /* allocations that had to fill a magazine from spans */
  uint64_t object_bytes; /* of a slot; 0 in a sum over pools of several sizes */
} tarn_pool_stats;

/* A new pool. Null: no memory (ENOMEM), or invalid options (EINVAL). */
TARN_API tarn_pool* tarn_pool_create(const tarn_pool_options* options) TARN_NOEXCEPT;
/* The process-wide pool of this name, size and alignment, created by the first call; never destroyed. Null as above. */
TARN_API tarn_pool* tarn_pool_shared(const tarn_pool_options* options) TARN_NOEXCEPT;
/* Requires: from tarn_pool_create, and no thread uses the pool any more. If no object is live, frees the pool and its memory
 * and returns 0; otherwise calls the leak hook, keeps both for ever, and returns the number of live objects. The default hook
 * waits if the owner has static storage duration: see tarn_pool_set_leak_hook. */
TARN_API size_t tarn_pool_destroy(tarn_pool* pool) TARN_NOEXCEPT;
/* The same, but frees the memory of live objects too; returns the bytes of all spans. */
TARN_API size_t tarn_pool_release(tarn_pool* pool) TARN_NOEXCEPT;

/* Memory for one object, not zeroed. Null: no memory, or the pool's limit is reached (ENOMEM). Of a pool of one thread: by one
 * thread at a time. */
TARN_API void* tarn_pool_allocate(tarn_pool* pool) TARN_NOEXCEPT;
/* Frees it to the pool in whose span the address lies; ends the process with a message if it is in none, as null is. */
TARN_API void tarn_pool_deallocate(void* object) TARN_NOEXCEPT;
/* The pool in whose span the address lies; null if it is in none. */
TARN_API tarn_pool* tarn_pool_of(const void* address) TARN_NOEXCEPT;
/* Of checked pools: ends the process unless the object is live and of this pool (of any, if null); the message names `what`. */
TARN_API void tarn_pool_check(const tarn_pool* pool, const void* object, const char* what) TARN_NOEXCEPT;

/* Takes memory until `objects` objects can be allocated without more. 1; 0 when there is none (ENOMEM). */
TARN_API int tarn_pool_reserve(tarn_pool* pool, size_t objects) TARN_NOEXCEPT;
/* Gives the pool's idle memory back to the page heap: the slots of the calling thread's bin (`*bin`; null: left alone), of
 * other threads' spare magazines and of full magazines go back to their spans, and all empty spans to the page heap. Returns the
 * bytes. */
TARN_API size_t tarn_pool_trim(tarn_pool* pool, tarn_pool_bin** bin) TARN_NOEXCEPT;
/* Writes the first `size` bytes of the statistics; a program passes sizeof(tarn_pool_stats). Cost: some locks. */
TARN_API void tarn_pool_get_stats(const tarn_pool* pool, tarn_pool_stats* out, size_t size) TARN_NOEXCEPT;
/* Calls visit(context, name, stats) for every pool. The name ends with a null byte. `visit` may allocate, but not create or
 * destroy pools. */
TARN_API void tarn_pool_visit(void (*visit)(void* context, const char* name, const tarn_pool_stats* stats),
                              void* context) TARN_NOEXCEPT;

/* Sets the function that tarn_pool_destroy calls when objects are live. Null: one line on stderr; for a pool whose owner has
 * static storage duration only when the process has run all static destructors, and only if objects are still live then. Returns
 * the previous one. */
typedef void (*tarn_pool_leak_hook)(const char* name, size_t live);
TARN_API tarn_pool_leak_hook tarn_pool_set_leak_hook(tarn_pool_leak_hook hook) TARN_NOEXCEPT;

/* The live objects of a pool at one moment. Bit i of live[] is set if the slot at `first` + i * slot_bytes holds one. */
typedef struct tarn_pool_live_span {
  char* first;
  const uint64_t* live;
  size_t slots;
} tarn_pool_live_span;
typedef struct tarn_pool_snapshot {
  size_t slot_bytes;
  size_t objects;
  size_t span_count;
  const tarn_pool_live_span* spans; /* in the order of their addresses */
} tarn_pool_snapshot;
/* Requires: no thread allocates from the pool or frees to it meanwhile, and what each has allocated and freed before
 * happens before the call. Null: no memory (ENOMEM); the process was forked while other threads held free slots,
 * which are lost and cannot be told from objects (ENOTSUP); another thread has been moving free slots for 5 s (EBUSY).
 * Cost: a bit per slot, in pages of 8 KiB; some ns per free slot in magazines; no slot is touched. */
TARN_API const tarn_pool_snapshot* tarn_pool_take_snapshot(const tarn_pool* pool) TARN_NOEXCEPT;
TARN_API void tarn_pool_drop_snapshot(const tarn_pool_snapshot* snapshot) TARN_NOEXCEPT;

/* ---- recyclers -------------------------------------------------------------------------------
 * What is kept, for how long, and when it is destroyed: tarn/recycler.hpp. */

typedef struct tarn_recycler tarn_recycler; /* the library's */

typedef struct tarn_recycler_options {
  size_t size; /* sizeof(tarn_recycler_options) */
  const char* name;
  size_t name_length;   /* 0: no name */
  size_t limit;         /* of idle objects; 0: none */
  size_t limit_objects; /* most idle objects; 0: any number */
  unsigned cycle_ms;    /* length of a generation; 0: only tarn_trim and memory pressure end one */
  /* Destroys an object; called by any thread, without a lock. Must not throw. */
  void (*destroy)(void* context, void* object);
  void* context;
} tarn_recycler_options;

#define TARN_RECYCLER_OPTIONS \
  { sizeof(tarn_recycler_options), NULL, 0, 67108864, 0, 2000, NULL, NULL }

typedef struct tarn_recycler_stats {
  uint64_t gets; /* hits + victims + misses */
  uint64_t hits; /* gets served by the calling thread's own array. Objects brought into threads' arrays: */
  uint64_t exchanged;  /*   from arrays that other threads had handed over */
  uint64_t stolen;     /*   out of other threads' arrays */
  uint64_t victims;    /* gets served by the older generation */
  uint64_t misses;     /* gets for which an object was built */
  uint64_t over_limit; /* objects destroyed when they came back: no room below the limit */
  uint64_t too_large;  /*   above limit_per_object */
  uint64_t oversized;  /*   far larger than recent use */
  uint64_t at_random;  /*   at random, with TARN_RECYCLER_DROPS */
  uint64_t unfit;      /*   reset() threw */
  uint64_t aged;       /* objects destroyed because they were not used for two cycles, or by trim() */
  uint64_t objects;    /* idle now */
  uint64_t bytes;      /* that the idle objects hold */
} tarn_recycler_stats;

/* Null: no memory (ENOMEM), or `destroy` is null (EINVAL). */
TARN_API tarn_recycler* tarn_recycler_create(const tarn_recycler_options* options) TARN_NOEXCEPT;
/* Destroys the idle objects, and keeps none from here on. The structure stays until tarn_recycler_free. Returns when no
 * background work or visit uses it any more. Requires: no other thread is inside a call. */
TARN_API void tarn_recycler_close(tarn_recycler* recycler) TARN_NOEXCEPT;
/* Requires: closed, and no further call names it. */
TARN_API void tarn_recycler_free(tarn_recycler* recycler) TARN_NOEXCEPT;
/* An idle object. Null: none is idle, and the caller builds one. */
TARN_API void* tarn_recycler_get(tarn_recycler* recycler) TARN_NOEXCEPT;
/* Keeps an object that holds `bytes` bytes, at least 1, for its next user. 0: there is no room; the caller destroys it. */
TARN_API int tarn_recycler_give_back(tarn_recycler* recycler, void* object, size_t bytes) TARN_NOEXCEPT;
/* Destroys all idle objects except those in arrays of threads that are inside a call. Returns their number. */
TARN_API size_t tarn_recycler_trim(tarn_recycler* recycler) TARN_NOEXCEPT;
/* As tarn_pool_get_stats. Cost: some microseconds. */
TARN_API void tarn_recycler_get_stats(tarn_recycler* recycler, tarn_recycler_stats* out,
                                      size_t size) TARN_NOEXCEPT;
/* Calls visit(context, name, stats) for every recycler. `visit` must not create or destroy recyclers. */
TARN_API void tarn_recycler_visit(void (*visit)(void* context, const char* name,
                                                const tarn_recycler_stats* stats),
                                  void* context) TARN_NOEXCEPT;

/* ---- buffer pools ---------------------------------------------------------------------------- */

typedef struct tarn_buffer_pool tarn_buffer_pool; /* the library's */

enum {
  tarn_buffer_prefault_never = 0,  /* by the program's first writes */
  tarn_buffer_prefault_in_get = 1, /* by tarn_buffer_get, for the whole buffer in one system call */
  tarn_buffer_prefault_ahead = 2   /* the same, and the background thread keeps further buffers ready */
};
enum { tarn_buffer_huge_automatic = 0, tarn_buffer_huge_always = 1, tarn_buffer_huge_never = 2 };

typedef struct tarn_buffer_options {
  size_t size;      /* sizeof(tarn_buffer_options) */
  const char* name; /* up to 127 bytes of it */
  size_t name_length;
  size_t
      alignment;   /* a power of two up to 1 GiB; raised to 8 KiB or the system's page, whichever is larger */
  size_t limit;    /* of kept buffers; 0: an eighth of the memory that the process may use */
  int64_t idle_ms; /* how long a kept buffer stays; -1: for ever */
  size_t ahead;    /* with tarn_buffer_prefault_ahead: how many buffers to keep ready */
  int prefault;    /* tarn_buffer_prefault_never … */
  int huge_pages;  /* tarn_buffer_huge_automatic … */
  int zeroed;      /* not 0: all buffers are zero when they are handed out */
  int locked;      /* not 0: locked in memory, left out of core dumps, wiped when they come back */
  int wiped_on_fork; /* not 0, with `locked`: a forked child finds zeroes */
  int checked;       /* not 0: detects misuse; with guard bytes at the end of each buffer */
} tarn_buffer_options;

#define TARN_BUFFER_OPTIONS \
  { sizeof(tarn_buffer_options), NULL, 0, 4096, 0, 5000, 1, 0, 0, 0, 0, 0, 0 }

typedef struct tarn_buffer_stats {
  uint64_t gets;          /* buffers handed out: hits + misses */
  uint64_t hits;          /* served by idle buffers of the pool */
  uint64_t misses;        /* served by the page heap, whose free memory may be backed too, or by the system */
  uint64_t live;          /* buffers in the program's hands */
  uint64_t live_bytes;    /* bytes of their spans */
  uint64_t kept;          /* idle buffers */
  uint64_t kept_bytes;    /* bytes of their spans */
  uint64_t leaving_bytes; /* idle beyond the limit, on their way to the system */
  uint64_t given_back;    /* bytes given to the system so far */
  uint64_t prepared;      /* buffers faulted in ahead of demand or by tarn_buffer_reserve */
  uint64_t zeroed_by_memset; /* bytes */
  uint64_t zeroed_by_system; /* bytes, by fresh pages in place of used ones */
  uint64_t limit;            /* of idle buffers now: as asked for, less under memory pressure */
} tarn_buffer_stats;

/* Null: no memory (ENOMEM), or invalid options (EINVAL). */
TARN_API tarn_buffer_pool* tarn_buffer_pool_create(const tarn_buffer_options* options) TARN_NOEXCEPT;
/* The process-wide pool, with all options at their defaults; created by the first call. Null when there is no memory. */
TARN_API tarn_buffer_pool* tarn_buffer_pool_shared(void) TARN_NOEXCEPT;
/* Requires: no other thread uses the pool any more. Frees the kept buffers; live ones stay valid, and are freed when
 * they are given back. */
TARN_API void tarn_buffer_pool_destroy(tarn_buffer_pool* pool) TARN_NOEXCEPT;

/* A buffer of at least `bytes` bytes, of which *capacity bytes may be used. Null: no memory (ENOMEM), or, for a
 * locked pool, no more memory may be locked (EPERM). */
TARN_API void* tarn_buffer_get(tarn_buffer_pool* pool, size_t bytes, size_t* capacity) TARN_NOEXCEPT;
/* Gives a buffer back to its pool, which is found by the address. `pool`, unless null, is the pool that the buffer must
 * belong to; only checked pools compare it. Ends the process with a message on a pointer that is not a live buffer, as null
 * is not. Leaves errno alone. */
TARN_API void tarn_buffer_give_back(tarn_buffer_pool* pool, void* buffer) TARN_NOEXCEPT;
/* The pool of the live buffer that begins at `address`, with its usable bytes in *capacity; null if there is none. */
TARN_API tarn_buffer_pool* tarn_buffer_pool_of(const void* address, size_t* capacity) TARN_NOEXCEPT;

/* Makes kept buffers for requests of `bytes` bytes, backed by memory, until there are `count`. 1; 0: no memory (ENOMEM), no more
 * memory may be locked (EPERM), or they exceed the limit (EDQUOT). */
TARN_API int tarn_buffer_reserve(tarn_buffer_pool* pool, size_t bytes, size_t count) TARN_NOEXCEPT;
/* Gives all kept buffers to the system; returns the bytes. */
TARN_API size_t tarn_buffer_trim(tarn_buffer_pool* pool) TARN_NOEXCEPT;
/* As tarn_pool_get_stats. */
TARN_API void tarn_buffer_get_stats(const tarn_buffer_pool* pool, tarn_buffer_stats* out,
                                    size_t size) TARN_NOEXCEPT;
/* Calls visit(context, name, stats) for every pool. The name ends with a null byte. */
TARN_API void tarn_buffer_visit(void (*visit)(void* context, const char* name,
                                              const tarn_buffer_stats* stats),
                                void* context) TARN_NOEXCEPT;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TARN_POOL_H */
