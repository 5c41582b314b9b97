// SPDX-License-Identifier: MIT
// The untyped pool behind the typed ones: what templates compile into programs, and what they call in the library.
//
// A pool's objects are slots of one size and alignment, cut from spans of the engine's page heap. Each thread has a bin
// for each pool that it uses; a bin's loaded magazine is an array of pointers to free slots. The inline part below pops
// from it and pushes to it; a miss calls the library. Thread safety: a bin belongs to one thread (or to one
// local_pool); all functions may be called by any thread. None throws.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <cstdint>

#include "tarn/detail/config.hpp"
#include "tarn/malloc.h"

struct tarn_pool;  // the library's

// The part of a bin that is compiled into programs. top[-1] is the next free slot to allocate, null when there is none;
// at top == limit there is no room for another slot.
//
//     the loaded magazine:   | null | slot | slot | slot |      |      |
//                                                    ^ top         ^ limit
struct tarn_pool_bin {
  void** top;
  void** limit;
};

// Memory for the bin of a single-threaded pool inside the pool's owner: a hit then saves the load of a pointer to the
// bin. Empty and full at once until the library has constructed a bin in it. Must not be moved.
struct tarn_pool_own_bin {
  tarn_pool_bin front;
  void* rest[14];
};

struct tarn_pool_bins {
  tarn_pool_bin** bins;
  std::size_t count;
};

// The first slot begins at its span's start, each further one at the end of the one before it. So a slot also has the
// alignment of the largest power of two that divides its size, up to that of a page.
struct tarn_pool_request {
  std::size_t size;       // bytes of an object
  std::size_t alignment;  // a power of two
  const char* name;       // copied; need not end with a null byte
  std::size_t name_length;
  std::size_t chunk_objects;     // least number of objects in a span; 0: decided by the span's size
  std::size_t initial_capacity;  // objects whose memory is taken at creation
  std::size_t magazine_length;   // most slots in one magazine, up to 252; 0: decided by the slot size
  std::size_t maximum_bytes;     // of spans; 0: no limit
  unsigned shards;               // most shards over which threads are spread, up to 64; 0: 32
  bool huge_pages;               // spans of 2 MiB on huge pages
  bool checked;                  // detects misuse; slow
  bool single_thread;            // used by one thread at a time: one bin, no shards
  // With single_thread: memory for the bin, valid until the pool is destroyed; null: the library provides it.
  tarn_pool_own_bin* own_bin;
  const void* owner;  // the object whose destructor calls tarn_pool_destroy; null: unknown
};

// A new figure is added here, in tarn_pool_get_figures(), and in tarn::pool_stats and named_pool_stats.
struct tarn_pool_figures {
  std::uint64_t live;  // objects in the program's hands
  std::uint64_t peak;  // upper bound of the most live objects at once: slots outside of spans, seen at misses
  std::uint64_t bytes;   // of the pool's spans
  std::uint64_t cached;  // free slots in magazines, of threads or handed over
  // Slots that misses have loaded into threads' magazines, without those that served the misses themselves: the
  // allocations that can then be served without a further miss. A slot that is freed and allocated again inside one
  // magazine counts once, as the fast path keeps no counter.
  std::uint64_t hits;
  std::uint64_t refills;       // allocations that had to fill a magazine from spans
  std::uint64_t object_bytes;  // of a slot; 0 in a sum over pools

  tarn_pool_figures& operator+=(const tarn_pool_figures& more) noexcept {
    live += more.live;
    peak += more.peak;
    bytes += more.bytes;
    cached += more.cached;
    hits += more.hits;
    refills += more.refills;
    return *this;
  }
};

extern "C" {

// A new pool. Null: no memory (errno ENOMEM), or an invalid request (EINVAL).
TARN_API tarn_pool* tarn_pool_create(const tarn_pool_request* request) noexcept;
// The process-wide pool of this name, size and alignment, created by the first call. Null as above.
TARN_API tarn_pool* tarn_pool_shared(const tarn_pool_request* request) noexcept;
// Requires: no thread uses the pool any more. If no object is live, frees the pool and its memory and returns 0;
// otherwise calls the leak hook, keeps both for ever, and returns the number of live objects. The default hook waits if
// the owner has static storage duration: see tarn::set_leak_hook().
TARN_API std::size_t tarn_pool_destroy(tarn_pool* pool) noexcept;

// The same, but frees the memory of live objects too; returns the bytes of all spans.
TARN_API std::size_t tarn_pool_release(tarn_pool* pool) noexcept;

// The pool in whose span the address lies; null if it is in none.
TARN_API tarn_pool* tarn_pool_of(const void* address) noexcept;

// The number of a pool that tarn_pool_create made for many threads. Numbers of destroyed pools are reused.
TARN_API std::size_t tarn_pool_number(const tarn_pool* pool) noexcept;
// The calling thread's bins of such pools, by number; an entry without a bin points to an empty and full one.
TARN_API extern constinit thread_local tarn_pool_bins tarn_pool_local_bins;

// Allocates after a miss. `*bin` is the caller's pointer to its bin: if that is not a bin of the pool yet, it is set to
// the thread's bin, unless the thread is about to end. Null when there is no memory, or the pool's maximum is reached
// (errno ENOMEM).
TARN_API void* tarn_pool_allocate_slow(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
// Deallocates after a miss. `pool` may be null: the pool is then found by the object's address. Leaves errno alone.
TARN_API void tarn_pool_deallocate_slow(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept;

// Deallocates to the pool in whose span the address lies; aborts if it is in none. Leaves errno alone.
TARN_API void tarn_pool_deallocate(void* object) noexcept;

// For checked pools: every operation calls these instead of using the bin.
TARN_API void* tarn_pool_checked_allocate(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
TARN_API void tarn_pool_checked_deallocate(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept;
// Aborts unless the object is live and of this pool (of any pool, if null); the message names `what`.
TARN_API void tarn_pool_check(const tarn_pool* pool, const void* object, const char* what) noexcept;

// Takes memory until `objects` objects can be allocated without more. False when there is none (errno ENOMEM).
TARN_API bool tarn_pool_reserve(tarn_pool* pool, std::size_t objects) noexcept;
// Gives the pool's idle memory back to the page heap: the slots of the calling thread's bin, of other threads' spare
// magazines and of full magazines go back to their spans, and all empty spans to the page heap. Returns the bytes.
TARN_API std::size_t tarn_pool_trim(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
TARN_API void tarn_pool_get_figures(const tarn_pool* pool, tarn_pool_figures* out) noexcept;

// The live objects of a pool at one moment. Bit i of live[] is set if the slot at `first` + i * slot_bytes holds one.
struct tarn_pool_live_span {
  char* first;
  const std::uint64_t* live;
  std::size_t slots;
};
struct tarn_pool_snapshot {
  std::size_t slot_bytes;
  std::size_t objects;
  std::size_t span_count;
  const tarn_pool_live_span* spans;  // in the order of their addresses
};
// Requires: no thread allocates from the pool or frees to it meanwhile, and what each has allocated and freed before
// happens before the call. Null: no memory (errno ENOMEM); the process was forked while other threads held free slots,
// which are lost and cannot be told from objects (ENOTSUP); another thread has been moving free slots for 5 s (EBUSY).
// Cost: a bit per slot, in pages of 8 KiB; some ns per free slot in magazines; no slot is touched.
TARN_API const tarn_pool_snapshot* tarn_pool_take_snapshot(const tarn_pool* pool) noexcept;
TARN_API void tarn_pool_drop_snapshot(const tarn_pool_snapshot* snapshot) noexcept;

// Calls visit(context, name, figures) for every pool. The name ends with a null byte. `visit` may allocate, but not
// create or destroy pools.
TARN_API void tarn_pool_visit(void (*visit)(void* context, const char* name,
                                            const tarn_pool_figures* figures),
                              void* context) noexcept;

// Sets the function that tarn_pool_destroy calls when objects are live; null: one line on stderr. Returns the previous
// hook.
using tarn_pool_leak_hook = void (*)(const char* name, std::size_t live);
TARN_API tarn_pool_leak_hook tarn_pool_set_leak_hook(tarn_pool_leak_hook hook) noexcept;

}  // extern "C"

namespace tarn {
inline namespace TARN_ABI {
namespace detail {

// The bin of a thread that has none yet: empty and full at once, so that its first call misses.
struct empty_bin {
  void* slots[2] = {nullptr, nullptr};
  tarn_pool_bin bin{slots + 1, slots + 1};
};
inline constinit empty_bin no_bin{};

// Null: the bin is empty; call tarn_pool_allocate_slow().
TARN_DETAIL_INLINE void* pop(tarn_pool_bin* bin) {
  void** const top = bin->top;
  void* const object = top[-1];
  if (TARN_DETAIL_UNLIKELY(object == nullptr)) return nullptr;
  bin->top = top - 1;
  return object;
}

// False: the bin is full; call tarn_pool_deallocate_slow().
TARN_DETAIL_INLINE bool push(tarn_pool_bin* bin, void* object) {
  void** const top = bin->top;
  if (TARN_DETAIL_UNLIKELY(top == bin->limit)) return false;
  *top = object;
  bin->top = top + 1;
  return true;
}

}  // namespace detail
}  // namespace TARN_ABI
}  // namespace tarn
