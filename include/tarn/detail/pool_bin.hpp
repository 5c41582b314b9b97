// SPDX-License-Identifier: MIT
// The bins of pools: what the templates of typed pools compile into programs, beside tarn/pool.h.
//
// Each thread has a bin for each pool that it uses; a bin's loaded magazine is an array of pointers to free slots. The inline
// part below pops from it and pushes to it; a miss calls the library. Thread safety: a bin belongs to one thread (or to one
// local_pool); all functions may be called by any thread. None throws.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>

#include "tarn/detail/config.hpp"
#include "tarn/pool.h"

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

extern "C" {

// The number of a pool that tarn_pool_create made for many threads. Numbers of destroyed pools are reused.
TARN_API std::size_t tarn_pool_number(const tarn_pool* pool) noexcept;
// The calling thread's bins of such pools, by number; an entry without a bin points to an empty and full one.
TARN_API extern constinit thread_local tarn_pool_bins tarn_pool_local_bins;

// Allocates after a miss. `*bin` is the caller's pointer to its bin: if that is not a bin of the pool yet, it is set to
// the thread's bin, unless the thread is about to end. Null when there is no memory, or the pool's limit is reached
// (errno ENOMEM).
TARN_API void* tarn_pool_allocate_slow(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
// Deallocates after a miss. `pool` may be null: the pool is then found by the object's address. Leaves errno alone.
TARN_API void tarn_pool_deallocate_slow(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept;

// For checked pools: every operation calls these instead of using the bin.
TARN_API void* tarn_pool_checked_allocate(tarn_pool* pool, tarn_pool_bin** bin) noexcept;
TARN_API void tarn_pool_checked_deallocate(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept;

}  // extern "C"

namespace tarn {
TARN_NAMESPACE_BEGIN
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
TARN_NAMESPACE_END
}  // namespace tarn
