/* SPDX-License-Identifier: MIT
 * tarn/scope.h: scopes in C. A scope is a purpose whose memory is charged, bounded and ended together: a query, a
 * request, a tenant. While a thread has entered a scope, every malloc and operator new of that thread, by whatever
 * code, takes its memory from the scope (with libtarn-api: every tarn_malloc). Blocks may be freed by any thread at any
 * time, in or out of the scope, also after its end. In C++: tarn/scope.hpp. The guide: docs/tutorials/bound-a-query.md.
 *
 *     tarn_scope_options options = TARN_SCOPE_OPTIONS;
 *     options.limit = 64 << 20;
 *     tarn_scope query = tarn_scope_begin("query", &options);
 *     tarn_scope_entry entry;
 *     if (tarn_scope_enter(query, &entry)) { run(); tarn_scope_leave(&entry); }
 *     tarn_scope_end(query, NULL);
 *
 * Charged: spans (8 KiB and more) that the scope's blocks lie in, and large blocks. So the limit bounds resident
 * memory, not the sum of the requests. What freed blocks leave stays charged, and resident for the scope's next blocks, up
 * to half the limit (without one, 1 MiB or a quarter of the charge); it goes back when a limit asks for it. Not charged: typed pools, recyclers, buffer pools and
 * tarn's arenas, whose memory is the process's and outlives scopes; guarded blocks (option guarded), and blocks up to
 * 2 KiB that the heap profile follows (option profile), which are reported as survivors all the same. Containers, pmr
 * resources and arenas that take their memory from malloc or new are charged as their blocks are.
 * Under a sanitizer or another malloc (AddressSanitizer, valgrind) nothing is charged, and no limit holds.
 * Thread safety: any thread, unless said otherwise. Sizes are in bytes.
 * Not for: scopes that hold a few kilobytes (each size class of a scope takes 8 KiB); results that outlive the scope in
 * large number (make them outside of it: tarn_scope_leave() first).
 */
#ifndef TARN_SCOPE_H
#define TARN_SCOPE_H

#include "tarn/malloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A scope, to be copied freely: into tasks, other threads, callbacks. {NULL, 0} is no scope. It may outlive the scope:
 * its use then ends the process with a message. */
typedef struct tarn_scope {
  void* instance; /* the library's */
  uint64_t number;
} tarn_scope;

/* What an allocation over the limit does after the callback has been asked. */
enum {
  TARN_SCOPE_FAIL = 0, /* null and ENOMEM, std::bad_alloc */
  TARN_SCOPE_WAIT = 1, /* waits up to wait_ms for other threads to free memory of the scope, then fails */
  TARN_SCOPE_LEND = 2  /* the parent lends: only the limits of the parents bind */
};

typedef struct tarn_scope_options {
  size_t size;  /* sizeof(tarn_scope_options): later versions have more members at the end */
  size_t limit; /* of charged memory; 0: none. At least 128 KiB. The memory of scopes inside counts, too */
  int over;     /* TARN_SCOPE_FAIL … */
  unsigned wait_ms;
  /* Called without locks, in the scope, by the thread whose allocation of `bytes` does not fit. It may free memory, and
   * allocate as far as that fits. Not 0: try again. An allocation within it, in whichever scope, is not announced again. It
   * must return: neither throw nor jump out. If it does not return, the thread's later allocations are not announced
   * either, until it has left its outermost scope; limits hold all the same. Null: none. */
  int (*on_full)(void* context, tarn_scope scope, size_t bytes);
  void* context;
  /* At its end so much of the scope's memory stays backed for whoever needs memory next, until it decays; the rest goes
   * back to the system at once. */
  size_t keep;
  /* Not 0: blocks that outlive the scope become inaccessible, and their use ends the process with a message that names
   * the scope. free() of them is allowed. Guarded blocks, and those of up to 2 KiB that the heap profile follows, stay
   * accessible until then. Also for all scopes: TARN_SCOPES=checked. */
  int checked;
  /* The scope that this one is part of, and that takes over its survivors. None: the one that the calling thread is in,
   * if any. TARN_SCOPE_PROCESS: the process. */
  tarn_scope parent;
} tarn_scope_options;

#define TARN_SCOPE_KEEP 65536
#define TARN_SCOPE_OPTIONS                                                                         \
  {                                                                                                \
    sizeof(tarn_scope_options), 0, TARN_SCOPE_FAIL, 0, NULL, NULL, TARN_SCOPE_KEEP, 0, { NULL, 0 } \
  }
#define TARN_SCOPE_PROCESS_NUMBER 1

/* Blocks of one size class that have outlived their scope. */
typedef struct tarn_scope_survivors {
  uint64_t size; /* of each; 0: large blocks, of more than 256 KiB */
  uint64_t blocks;
  uint64_t bytes;
  /* While the heap profile is on, the call path that allocated most of those that it follows (or one of the paths, if
   * none has most): tarn_visit_profile() has it, by tarn_profile_site::number. 0: not known. */
  uint64_t site;
} tarn_scope_survivors;

enum { TARN_SCOPE_CLASSES = 128 };

/* What was left at the end of a scope. */
typedef struct tarn_scope_report {
  uint64_t blocks; /* survivors, now the parent's */
  uint64_t bytes;
  uint64_t held;  /* bytes of the spans that they hold; those that are not charged hold none */
  uint64_t peak;  /* the most that was charged */
  uint64_t given; /* bytes that went back, to the system or for the next one (`keep`) */
  uint32_t count; /* of classes */
  uint32_t reserved;
  tarn_scope_survivors classes[TARN_SCOPE_CLASSES]; /* smallest first, large blocks last */
} tarn_scope_report;

/* Statistics of one scope, or of all scopes of one name. */
typedef struct tarn_scope_stats {
  const char* name; /* valid for ever */
  uint64_t live;    /* scopes that have not ended */
  uint64_t ended;
  uint64_t limit;    /* sum over the live ones; 0: none */
  uint64_t charged;  /* bytes now, with the scopes inside */
  uint64_t peak;     /* the most of any one */
  uint64_t failures; /* allocations that failed for a limit */
  uint64_t callbacks;
  uint64_t waits;
  uint64_t survivors; /* blocks that outlived their scopes */
  uint64_t survivor_bytes;
  uint64_t lent; /* bytes above the own limit now (TARN_SCOPE_LEND) */
} tarn_scope_stats;

/* Begins a scope. `name` is copied, and is the key of the statistics (at most 47 bytes; for more than 128 names, the
 * others share one row). Null options: those of TARN_SCOPE_OPTIONS. {NULL, 0} with errno EINVAL (options) or ENOMEM.
 * Cost: a lock and some 3 KiB. */
TARN_API tarn_scope tarn_scope_begin(const char* name, const tarn_scope_options* options) TARN_NOEXCEPT;

/* Where the thread was before; on the stack of the thread, or in a coroutine's frame. */
typedef struct tarn_scope_entry {
  void* bin;
  void* outer;
} tarn_scope_entry;

/* From here on the calling thread allocates in the scope, until tarn_scope_leave(). May be nested, in any order of
 * scopes. 0 with ENOMEM: no memory, or the thread is about to end; nothing has changed. Ends the process if the scope has
 * ended. Cost: a few ns; the first time in each thread a lock and 5 KiB. */
TARN_API int tarn_scope_enter(tarn_scope scope, tarn_scope_entry* entry) TARN_NOEXCEPT;
/* By the same thread, innermost entry first; otherwise it ends the process. */
TARN_API void tarn_scope_leave(tarn_scope_entry* entry) TARN_NOEXCEPT;

/* The scope that the calling thread is in, or {NULL, 0}. */
TARN_API tarn_scope tarn_scope_current(void) TARN_NOEXCEPT;

/* Ends the scope: memory without live blocks goes back, live blocks go to the parent and are reported (if `report` is not
 * null). Ends the process if a thread has entered it, if a scope inside it has not ended, or if it has ended already. No
 * other thread may use the scope at that time (free() of its blocks is allowed), and what others did in it must have
 * happened before. */
TARN_API void tarn_scope_end(tarn_scope scope, tarn_scope_report* report) TARN_NOEXCEPT;

/* Writes the first `size` bytes of the scope's figures; a program passes sizeof(tarn_scope_stats). */
TARN_API void tarn_scope_get_stats(tarn_scope scope, tarn_scope_stats* out, size_t size) TARN_NOEXCEPT;
/* Calls visit() for each name that a scope has had, without a lock. */
TARN_API void tarn_scope_visit(void (*visit)(void* context, const tarn_scope_stats* stats),
                               void* context) TARN_NOEXCEPT;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TARN_SCOPE_H */
