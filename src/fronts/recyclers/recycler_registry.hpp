// SPDX-License-Identifier: MIT
// recycler_registry: all recyclers and their bins, and what happens to them when a cycle ends, or a recycler.
//
// Thread safety: all functions may be called by any thread. Objects are destroyed without a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/metrics.hpp"
#include "fronts/recyclers/recycler_bin.hpp"
#include "fronts/recyclers/recycler_core.hpp"

namespace tarn::recycler_registry {

// Null when there is no memory.
tarn_recycler* create(const tarn_recycler_options& request);
// Destroys the idle objects; from then on none is kept. Waits until the recycler is not pinned. Requires: no other
// thread is inside a call.
void close(tarn_recycler* recycler);
// Frees the structure for reuse. Requires: closed.
void free(tarn_recycler* recycler);

// The calling thread's bin, created if needed. Null when the recycler is closed, the thread is about to end, or there
// is no memory.
recycler_bin* bin_of(tarn_recycler* recycler);

// Takes the spare magazine of some thread's bin; null if there is none.
recycler_magazine* steal(tarn_recycler* recycler);

// Ends a generation: destroys the older one; with `all` also the younger one. Returns the number of objects destroyed.
std::size_t end_generation(tarn_recycler* recycler, bool all);
// Ends the generations that are due, or with `all` all generations, of every recycler. Returns after how many
// milliseconds to call again; -1 when no recycler has idle objects.
std::int64_t end_due_generations(std::int64_t now_ms, bool all);

void get_figures(tarn_recycler* recycler, tarn_recycler_stats& out);

#pragma GCC visibility push(hidden)
extern engine::front_registry<tarn_recycler, recycler_bin> recyclers;
// The figures of all recyclers.
extern const metric_group metrics;
#pragma GCC visibility pop

}  // namespace tarn::recycler_registry
