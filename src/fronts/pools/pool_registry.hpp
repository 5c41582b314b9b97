// SPDX-License-Identifier: MIT
// pool_registry: all pools and their bins, and what happens to them when a pool or a thread ends, at fork and in
// periods of decay.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>

#include "engine/metrics.hpp"
#include "fronts/pools/pool_bin.hpp"
#include "fronts/pools/pool_core.hpp"

namespace tarn::pool_registry {

#pragma GCC visibility push(hidden)

// Null with errno ENOMEM, or EINVAL for an invalid request.
tarn_pool* create(const tarn_pool_options& request);
// The shared pool of this name, size and alignment; created if there is none. Null as above.
tarn_pool* find_or_create(const tarn_pool_options& request);
// Destroys the pool if no object is live. Returns the number of live objects; if not 0, the pool stays and keeps its
// memory.
// Requires: no thread uses the pool.
std::size_t destroy(tarn_pool* pool);
// The same, but frees the memory of live objects too; returns the bytes of all spans.
std::size_t release(tarn_pool* pool);

// The calling thread's bin of the pool, created if needed and stored to *where. Null when the thread is about to end or
// there is no memory.
pool_bin* bin_of(tarn_pool* pool, tarn_pool_bin** where);

// Puts the slots of threads' spare magazines back into spans; with `only_if_idle` only those of threads that have made
// no slow call since the last time.
void take_surplus(pool_core* pool, bool only_if_idle);
// Puts the pool's free slots back into spans: those of the bin `own` (if not null), of spare magazines of all threads,
// and of full magazines; gives empty spans to the page heap. Returns their bytes.
std::size_t trim(pool_core* pool, pool_bin* own);
// trim() of all pools, with all bins of the calling thread. Returns the bytes.
std::size_t trim_all();

// Free slots in bins and full magazines, in transit, or lost by fork.
std::size_t cached(pool_core* pool);

extern engine::front_registry<tarn_pool, pool_bin> pools;

// The figures of all pools.
extern const metric_group metrics;

#pragma GCC visibility pop

}  // namespace tarn::pool_registry
