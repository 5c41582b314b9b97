// SPDX-License-Identifier: MIT
// The untyped pool behind the typed ones: what templates compile into programs, and what they call in the library.
//
// A pool's objects are slots of one size and alignment, cut from spans of the engine's page heap. Each thread has
// a bin for each pool that it uses: an array of pointers to free slots. The inline part below pops and pushes;
// whatever misses calls the library. Thread safety: a bin belongs to one thread (or to one local_pool); all
// functions may be called by any thread. None throws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tarn/detail/config.hpp"
#include "tarn/malloc.h"

struct tarn_pool;  // the library's

// The part of a bin that is compiled into programs. top[-1] is the next free slot to hand out, null when there is
// none; at top == limit there is no room for another one.
struct tarn_pool_bin {
  void** top;
  void** limit;
};

// Room for the bin of a pool for one thread, where its owner keeps it: a hit is then one load shorter than through a
// pointer. Empty and full at once until the library has made a bin of it. It does not move.
struct tarn_pool_own_bin {
  tarn_pool_bin front;
  void* rest[14];
};

struct tarn_pool_bins {
  tarn_pool_bin** bins;
  std::size_t count;
};

// Slots begin where their span does, one behind the other: each also has the alignment of the largest power of two that
// divides its size, up to a page's.
struct tarn_pool_request {
  std::size_t size;       // bytes of an object
  std::size_t alignment;  // a power of two
  const char* name;       // copied; need not end with a null byte
  std::size_t name_length;
  std::size_t chunk_objects;     // at least so many objects per span; 0: as the library thinks best
  std::size_t initial_capacity;  // objects whose memory is taken at once
  std::size_t magazine_length;   // most objects in one magazine; 0: as the library thinks best
  std::size_t maximum_bytes;     // of spans; 0: no limit
  unsigned shards;               // depots that threads are spread over; 0: one
  bool huge_pages;               // spans of 2 MiB on huge pages
  bool checked;                  // detects misuse; slow
  bool single_thread;            // for a local_pool: one bin, which is the pool's own
  tarn_pool_own_bin*
      own_bin;  // where that one lies, as long as the pool is not destroyed; null: with the library
};

struct tarn_pool_figures {
  std::uint64_t live;     // objects in the program's hands
  std::uint64_t peak;     // the most of them at once, as seen when bins were filled and emptied
  std::uint64_t bytes;    // of the pool's spans
  std::uint64_t cached;   // free slots in bins and full magazines
  std::uint64_t hits;     // allocations that a bin can have served from the slots it got: at least so many
  std::uint64_t refills;  // allocations that filled a bin
  std::uint64_t object_bytes;  // a slot's size
};

extern "C" {

// A pool of its own; null when there is no memory or the request makes no sense (errno ENOMEM, EINVAL).
TARN_API tarn_pool* tarn_pool_create(const tarn_pool_request* request) noexcept;
// The process-wide pool of this name, size and alignment, made by the first who asks. Null when there is no memory.
TARN_API tarn_pool* tarn_pool_shared(const tarn_pool_request* request) noexcept;
// Requires: no thread uses the pool any more. Frees its memory and the pool if no object is live and returns 0;
// otherwise keeps both for ever and returns how many are.
TARN_API std::size_t tarn_pool_destroy(tarn_pool* pool) noexcept;

// The same, but frees the memory whatever is live, and returns its bytes.
TARN_API std::size_t tarn_pool_release(tarn_pool* pool) noexcept;

// The pool whose span the address lies in; null if that is none.
TARN_API tarn_pool* tarn_pool_of(const void* address) noexcept;

// The number of a pool made by tarn_pool_create for many threads; numbers are used again.
TARN_API std::size_t tarn_pool_number(const tarn_pool* pool) noexcept;
// The calling thread's bins of such pools, by number; null where it has none yet.
TARN_API extern constinit thread_local tarn_pool_bins tarn_pool_local_bins;

// A miss. `bin` is where the caller keeps its bin's address; it is set to the thread's bin if it was not yet, unless
// the thread is about to end. Null when there is no memory (or the pool's maximum is reached).
TARN_API void* tarn_pool_allocate_slow(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
// `pool` may be null: then it is the one that the object's address belongs to.
TARN_API void tarn_pool_deallocate_slow(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept;

// To the pool that the address belongs to, found by it.
TARN_API void tarn_pool_deallocate(void* object) noexcept;

// For checked pools: every operation comes here instead of to the bin.
TARN_API void* tarn_pool_checked_allocate(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
TARN_API void tarn_pool_checked_deallocate(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept;
// Aborts unless the object is live and of this pool.
TARN_API void tarn_pool_check(const tarn_pool* pool, const void* object, const char* what) noexcept;

// Takes memory for so many more objects at once. False when there is none.
TARN_API bool tarn_pool_reserve(tarn_pool* pool, std::size_t objects) noexcept;
// Gives the pool's idle memory back to the page heap: the calling thread's bin, what idle threads hold, and all
// empty spans. Returns the bytes.
TARN_API std::size_t tarn_pool_trim(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
TARN_API void tarn_pool_get_figures(const tarn_pool* pool, tarn_pool_figures* out) noexcept;

// Calls visit(context, name, figures) for every pool there is. The name ends with a null byte. `visit` may allocate,
// but not make or destroy pools.
TARN_API void tarn_pool_visit(void (*visit)(void* context, const char* name,
                                            const tarn_pool_figures* figures),
                              void* context) noexcept;

// Called by tarn_pool_destroy when objects are live; null: one line on stderr. Returns the one before.
using tarn_pool_leak_hook = void (*)(const char* name, std::size_t live);
TARN_API tarn_pool_leak_hook tarn_pool_set_leak_hook(tarn_pool_leak_hook hook) noexcept;

}  // extern "C"

namespace tarn::detail {

// What a thread that has no bin yet uses: empty and full at once, so that its first call misses.
struct empty_bin {
  void* slots[2] = {nullptr, nullptr};
  tarn_pool_bin bin{slots + 1, slots + 1};
};
inline constinit empty_bin no_bin{};

// Null: allocate_slow.
TARN_DETAIL_INLINE void* pop(tarn_pool_bin* bin) {
  void** const top = bin->top;
  void* const object = top[-1];
  if (TARN_DETAIL_UNLIKELY(object == nullptr)) return nullptr;
  bin->top = top - 1;
  return object;
}

// False: deallocate_slow.
TARN_DETAIL_INLINE bool push(tarn_pool_bin* bin, void* object) {
  void** const top = bin->top;
  if (TARN_DETAIL_UNLIKELY(top == bin->limit)) return false;
  *top = object;
  bin->top = top + 1;
  return true;
}

}  // namespace tarn::detail
