// SPDX-License-Identifier: MIT
// pool_registry: every pool there is, and each thread's bins.
//
// Thread safety: any thread. Its lock is held for walks along lists only; work on a pool happens while the pool is
// pinned, with the lock free. Structures of pools and bins are reused, never given back to the system: whoever comes
// to one late finds one.
#pragma once

#include <cstddef>

#include "pool/pool_bin.hpp"
#include "pool/pool_core.hpp"

namespace tarn::pool_registry {

#pragma GCC visibility push(hidden)

// Null with errno ENOMEM, or EINVAL for a request that makes no sense.
tarn_pool* create(const tarn_pool_request& request);
// The shared pool of this name, size and alignment; made if there is none.
tarn_pool* find_or_create(const tarn_pool_request& request);
// Requires: nobody uses it. Returns how many objects are live: the pool then stays, and keeps its memory.
std::size_t destroy(tarn_pool* pool);
// The same, whatever is live.
std::size_t release(tarn_pool* pool);

// The bin that the calling thread has for the pool, made if needed and stored to *where. Null when the thread is about
// to end or there is no memory.
pool_bin* bin_of(pool_core* pool, tarn_pool_bin** where);

// Puts other threads' spare magazines back into spans; `only_if_idle` those of threads that have been idle for a while.
void take_surplus(pool_core* pool, bool only_if_idle);
// Gathers the pool's free slots: those of the caller's bin (if not null), other threads' spare magazines, full ones;
// and gives empty spans to the page heap. Returns their bytes.
std::size_t trim(pool_core* pool, pool_bin* own);
std::size_t trim_all();

// In magazines of all kinds.
std::size_t cached(pool_core* pool);

pool_core* first_pinned();
pool_core* next_pinned(pool_core* pool);

// Calls visit(pool) for every pool, pinned.
template <class Visit>
void for_each(Visit visit) {
  for (pool_core* pool = first_pinned(); pool != nullptr; pool = next_pinned(pool)) visit(*pool);
}

#pragma GCC visibility pop

}  // namespace tarn::pool_registry
