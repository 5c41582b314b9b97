// SPDX-License-Identifier: MIT
// The untyped recycler behind recycler<T>: what templates compile into programs, and what they call in the library.
//
// Each thread has a bin for each recycler that it uses: an array of pointers to objects that wait to be used again. The
// inline part below pops and pushes; whatever misses calls the library. Thread safety: all functions may be called by any
// thread. None throws.
//
// A bin is its thread's, and yet others may empty it while the thread does something else, for years perhaps: that is
// what makes an idle recycler empty. The owner pays for it with two stores and a load, none of which it waits for; the
// others pay with a system call that has every thread of the process order its stores and loads:
//   owner:   busy = 1;  (no reordering by the compiler)  claimed?  …pop or push…  busy = 0
//   others:  claimed = 1;  membarrier();  busy?  …take what is in it…  claimed = 0
// After membarrier() an owner that did not see `claimed` has its `busy` seen; whoever comes later sees `claimed` and goes
// to the library instead. (Dekker's protocol with the fence on one side only. Every interleaving is explored in
// tests/model/claim.pml.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tarn/detail/config.hpp"
#include "tarn/malloc.h"

struct tarn_recycler;  // the library's

struct tarn_recycler_entry {
  void* object;  // null in the entry below the first one
  std::size_t
      paid;  // bytes of the recycler's budget that this place has; an object above them does not fit in.
             // 0 in the entry behind the last one, and where nothing is paid yet
};

// The part of a bin that is compiled into programs.
struct tarn_recycler_bin {
  tarn_recycler_entry* top;            // top[-1] is the next object to hand out
  std::atomic<std::uint64_t> hits;     // written by the owner only
  std::size_t recent_use;              // the owner's; see recycler.hpp
  std::atomic<std::uint32_t> busy;     // the owner is inside
  std::atomic<std::uint32_t> claimed;  // somebody else is, or is about to be
};

struct tarn_recycler_bins {
  tarn_recycler_bin** bins;
  std::size_t count;
};

struct tarn_recycler_request {
  const char* name;  // copied; need not end with a null byte
  std::size_t name_length;
  std::size_t maximum_bytes;    // of objects that wait; 0: no limit
  std::size_t maximum_objects;  // likewise
  unsigned cycle_ms;            // the length of a generation; 0: only tarn_trim and pressure end one
  // Ends an object's life; called by any thread, without a lock. Must not throw.
  void (*destroy)(void* context, void* object);
  void* context;
};

enum tarn_recycler_drop : unsigned {
  tarn_recycler_over_budget,  // no room in the budget
  tarn_recycler_too_large,    // above the largest object kept
  tarn_recycler_oversized,    // holds far more memory than was used of late
  tarn_recycler_at_random,    // in a debug build
  tarn_recycler_aged,         // not used for a whole generation, trimmed, or at the recycler's end
  tarn_recycler_unfit,        // its reset failed
  tarn_recycler_drops         // their number
};

struct tarn_recycler_figures {
  std::uint64_t hits;       // got from the calling thread's own bin
  std::uint64_t exchanged;  // got from what threads have handed over
  std::uint64_t stolen;     // got from another thread's bin
  std::uint64_t victims;    // got from the older generation
  std::uint64_t misses;     // built
  std::uint64_t dropped[tarn_recycler_drops];
  std::uint64_t objects;  // that wait now
  std::uint64_t bytes;    // of the budget, for these
};

extern "C" {

// Null when there is no memory.
TARN_API tarn_recycler* tarn_recycler_create(const tarn_recycler_request* request) noexcept;
// Destroys the objects that wait. What comes back later is destroyed as it comes. The recycler itself stays until
// tarn_recycler_free(). Returns when no other thread is inside of it.
TARN_API void tarn_recycler_close(tarn_recycler* recycler) noexcept;
// Requires: closed, and nobody will name it again.
TARN_API void tarn_recycler_free(tarn_recycler* recycler) noexcept;

// Of the calling thread's bins, by number; numbers are used again.
TARN_API std::size_t tarn_recycler_number(const tarn_recycler* recycler) noexcept;
TARN_API extern constinit thread_local tarn_recycler_bins tarn_recycler_local_bins;

// A miss: an object of another place, or null: then one has to be built.
TARN_API void* tarn_recycler_get_slow(tarn_recycler* recycler) noexcept;
// Makes room for an object of so many bytes and keeps it. False: it is the caller's to destroy.
TARN_API bool tarn_recycler_give_slow(tarn_recycler* recycler, void* object, std::size_t bytes) noexcept;
// An object was not kept for another reason than the budget.
TARN_API void tarn_recycler_note_drop(tarn_recycler* recycler, tarn_recycler_drop reason) noexcept;
// False to all but one in four calls, at random.
TARN_API bool tarn_recycler_draws_drop(tarn_recycler* recycler) noexcept;

// Destroys all objects that wait and can be had. Returns their number.
TARN_API std::size_t tarn_recycler_trim(tarn_recycler* recycler) noexcept;
TARN_API void tarn_recycler_get_figures(tarn_recycler* recycler, tarn_recycler_figures* out) noexcept;
// Calls visit(context, name, figures) for every recycler there is. `visit` may not make or end recyclers.
TARN_API void tarn_recycler_visit(void (*visit)(void* context, const char* name,
                                                const tarn_recycler_figures* figures),
                                  void* context) noexcept;

// For checked recyclers: a checksum of the object's bytes, which nobody may use from here on, as valgrind is told; and the
// same again when it is handed out or ends.
TARN_API std::uint64_t tarn_recycler_seal(void* object, std::size_t bytes) noexcept;
TARN_API std::uint64_t tarn_recycler_unseal(void* object, std::size_t bytes) noexcept;
// Writes "tarn: <what> of <the recycler's name>: <object>" and aborts.
[[noreturn]] TARN_API void tarn_recycler_fatal(const tarn_recycler* recycler, const char* what,
                                               const void* object) noexcept;

}  // extern "C"

namespace tarn::detail {

// The owner comes in. False: somebody else is in the bin; the owner is not.
TARN_DETAIL_INLINE bool enter(tarn_recycler_bin* bin) {
  bin->busy.store(1, std::memory_order_relaxed);
  // Partner: membarrier() in the library, which makes this fence one of the processor.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // acquire: what the one who claimed the bin has changed in it, partner of the release that gave it back.
  if (TARN_DETAIL_LIKELY(bin->claimed.load(std::memory_order_acquire) == 0)) return true;
  bin->busy.store(0, std::memory_order_release);
  return false;
}
// release: partner of the acquire with which others look whether the owner is inside.
TARN_DETAIL_INLINE void leave(tarn_recycler_bin* bin) { bin->busy.store(0, std::memory_order_release); }

// The calling thread's bin, or null.
TARN_DETAIL_INLINE tarn_recycler_bin* local_recycler_bin(std::size_t number) {
  const tarn_recycler_bins& table = tarn_recycler_local_bins;
  return TARN_DETAIL_LIKELY(number < table.count) ? table.bins[number] : nullptr;
}

// Null: tarn_recycler_get_slow().
TARN_DETAIL_INLINE void* pop(tarn_recycler_bin* bin) {
  if (TARN_DETAIL_UNLIKELY(bin == nullptr || !enter(bin))) return nullptr;
  tarn_recycler_entry* const top = bin->top;
  void* const object = top[-1].object;
  if (TARN_DETAIL_LIKELY(object != nullptr)) {
    bin->top = top - 1;
    bin->hits.store(bin->hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  leave(bin);
  return object;
}

// False: tarn_recycler_give_slow(). Requires bytes != 0.
TARN_DETAIL_INLINE bool push(tarn_recycler_bin* bin, void* object, std::size_t bytes) {
  if (TARN_DETAIL_UNLIKELY(bin == nullptr || !enter(bin))) return false;
  tarn_recycler_entry* const top = bin->top;
  const bool fits = bytes <= top->paid;
  if (TARN_DETAIL_LIKELY(fits)) {
    top->object = object;
    bin->top = top + 1;
  }
  leave(bin);
  return fits;
}

}  // namespace tarn::detail
