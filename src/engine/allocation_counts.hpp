// SPDX-License-Identifier: MIT
// allocation_counts: counts of one thread's allocations, for tests (tarn_count_begin).
//
// The fast paths of malloc keep no counter. While a thread counts, the countdowns of its guarded allocations
// (sample_countdown) are negative, so each of its allocations takes the slow path, and is counted there.
//
// Thread safety: each thread has its own counts; a count is begun and ended by the same thread.
// Invariant: if innermost() is not null, every countdown of the thread's cache, and of its use of the
// processors' caches, is negative.
#pragma once

#include <cstddef>

#include "engine/instance.hpp"
#include "tarn/malloc.h"

namespace tarn::allocation_counts {

#pragma GCC visibility push(hidden)

// The calling thread's innermost count, or null.
extern thread_local constinit tarn_allocation_count* innermost;

// Requires: the thread is attached.
void begin(tarn_allocation_count& count);
// Aborts if it is not the innermost count.
void end(tarn_allocation_count& count);
// The thread ends: its counts, which may lie on its stack, are given up.
void forget();
// Counts an allocation of `size` bytes in all counts of the thread.
void add(std::size_t size);
// The calling thread counts and has got a cache.
void adopt_cache(thread_cache& cache);

#pragma GCC visibility pop

}  // namespace tarn::allocation_counts
