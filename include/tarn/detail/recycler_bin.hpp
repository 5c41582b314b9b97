// SPDX-License-Identifier: MIT
// The bins of recyclers: what the templates of recyclers compile into programs, beside tarn/pool.h.
//
// Each thread has a bin for each recycler that it uses: an array of pointers to idle objects. The inline part below
// pops and pushes; a miss calls the library. Thread safety: all functions may be called by any thread. None throws.
//
// A bin belongs to its thread, yet other threads may empty it while the owner is outside of it, however long: otherwise
// the objects in a sleeping thread's bin could not age. The owner pays two stores and a load, and waits for none of
// them (a pop stores an odd and an even count in place of 1 and 0, so that counting costs no store of its own); the
// others pay a system call that makes every thread of the process order its stores and loads:
//   owner:   busy = 1;  (no reordering by the compiler)  claimed?  …pop or push…  busy = 0
//   others:  claimed = 1;  membarrier();  busy?  …take the objects…  claimed = 0
// After membarrier() either the other thread sees `busy` of an owner that did not see `claimed`, or the owner sees
// `claimed`, and calls the library instead. (Dekker's protocol with the fence on one side only. Every execution is
// explored in tests/weak_memory/handover_models.cpp.)
#pragma once

#include "tarn/detail/abi.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tarn/detail/config.hpp"
#include "tarn/pool.h"

// One place of a bin's array. A push puts an object only where `paid` covers the object's bytes:
//
//     object | null | p1  | p2  |     |     |     |
//     paid   |  -   | 300 | 300 | 300 |  0  |  0  |   entry 0 and the entry after the last place are sentinels
//                                 ^ top
struct tarn_recycler_entry {
  void* object;  // null in the sentinel below the first place
  // Bytes of the recycler's limit reserved for this place; it stays reserved while the place is empty. 0 in the
  // sentinel after the last place, and where nothing is reserved yet.
  std::size_t paid;
};

// The part of a bin that is compiled into programs.
struct tarn_recycler_bin {
  tarn_recycler_entry* top;            // top[-1] is the next object to hand out
  std::atomic<std::uint64_t> taken;    // twice the owner's hits, plus 1 while it is inside for a pop
  std::size_t recent_use;              // bytes of the objects given back of late, a mean; the owner's
  std::atomic<std::uint32_t> busy;     // 1 while the owner is inside for anything else
  std::atomic<std::uint32_t> claimed;  // not 0 while another thread is inside, or is about to be
};

struct tarn_recycler_bins {
  tarn_recycler_bin** bins;
  std::size_t count;
};

enum tarn_recycler_drop : unsigned {
  tarn_recycler_over_limit,  // no room below the limit
  tarn_recycler_too_large,   // above the largest object kept
  tarn_recycler_oversized,   // holds far more memory than recent users needed
  tarn_recycler_at_random,   // with TARN_RECYCLER_DROPS
  tarn_recycler_aged,        // not used for two cycles, trimmed, or at the recycler's end
  tarn_recycler_unfit,       // its reset threw
  tarn_recycler_drops        // the number of reasons
};

extern "C" {

// The recycler's index in the calling thread's table of bins. Numbers of freed recyclers are reused.
TARN_API std::size_t tarn_recycler_number(const tarn_recycler* recycler) noexcept;
// The calling thread's bins by number; null where it has none yet.
TARN_API extern constinit thread_local tarn_recycler_bins tarn_recycler_local_bins;

// Counts an object that was not kept for a reason other than the limit.
TARN_API void tarn_recycler_note_drop(tarn_recycler* recycler, tarn_recycler_drop reason) noexcept;
// True for one call in four, at random; counts it as a drop.
TARN_API bool tarn_recycler_draws_drop(tarn_recycler* recycler) noexcept;

// For checked recyclers. Both return a checksum of the object's bytes. seal() also tells valgrind that the bytes may
// not be accessed; unseal(), when the object is handed out or destroyed, that they may.
TARN_API std::uint64_t tarn_recycler_seal(void* object, std::size_t bytes) noexcept;
TARN_API std::uint64_t tarn_recycler_unseal(void* object, std::size_t bytes) noexcept;
// Writes "tarn: <what> of <the recycler's name>: <object>" and aborts.
[[noreturn]] TARN_API void tarn_recycler_fatal(const tarn_recycler* recycler, const char* what,
                                               const void* object) noexcept;

}  // extern "C"

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

// The owner leaves its bin. release: partner of the acquire of both words in is_entered().
template <class Word>
TARN_DETAIL_INLINE void leave(std::atomic<Word>& inside, Word now) {
  inside.store(now, std::memory_order_release);
}
// The owner enters its bin: `inside` becomes `now`. False: another thread has claimed the bin, and the owner stays
// outside.
template <class Word>
TARN_DETAIL_INLINE bool enter(const tarn_recycler_bin* bin, std::atomic<Word>& inside, Word now) {
  inside.store(now, std::memory_order_relaxed);
  // Partner: membarrier() in with_claimed() of the library, which acts as a fence of the processor at this place.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // acquire: partner of the release of `claimed` in with_claimed(); the owner sees what the other thread has changed.
  if (TARN_DETAIL_LIKELY(bin->claimed.load(std::memory_order_acquire) == 0)) return true;
  leave(inside, now - 1);
  return false;
}
TARN_DETAIL_INLINE bool enter(tarn_recycler_bin* bin) { return enter(bin, bin->busy, 1U); }
TARN_DETAIL_INLINE void leave(tarn_recycler_bin* bin) { leave(bin->busy, 0U); }

// The calling thread's bin, or null.
TARN_DETAIL_INLINE tarn_recycler_bin* local_recycler_bin(std::size_t number) {
  const tarn_recycler_bins& table = tarn_recycler_local_bins;
  return TARN_DETAIL_LIKELY(number < table.count) ? table.bins[number] : nullptr;
}

// Null: nothing to pop; call tarn_recycler_get().
TARN_DETAIL_INLINE void* pop(tarn_recycler_bin* bin) {
  if (TARN_DETAIL_UNLIKELY(bin == nullptr)) return nullptr;
  const std::uint64_t taken = bin->taken.load(std::memory_order_relaxed);
  if (TARN_DETAIL_UNLIKELY(!enter(bin, bin->taken, taken + 1))) return nullptr;
  tarn_recycler_entry* const top = bin->top;
  void* const object = top[-1].object;
  if (TARN_DETAIL_UNLIKELY(object == nullptr)) {
    leave(bin->taken, taken);
    return nullptr;
  }
  bin->top = top - 1;
  leave(bin->taken, taken + 2);
  return object;
}

// False: the object does not fit; call tarn_recycler_give_back(). Requires: bytes != 0, as nothing
// is paid for the place behind the last one: 0 bytes would fit there.
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

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
