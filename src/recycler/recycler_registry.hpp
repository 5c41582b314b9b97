// SPDX-License-Identifier: MIT
// recycler_registry: all recyclers, each thread's bins of them, and what happens to both when a cycle, a thread or the
// process ends.
//
// Thread safety: all functions may be called by any thread. One lock guards the lists; objects are destroyed without it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recycler/recycler_bin.hpp"
#include "recycler/recycler_core.hpp"

namespace tarn::recycler_registry {

// Null when there is no memory.
tarn_recycler* create(const tarn_recycler_request& request);
// Destroys what waits; no other thread is inside when it returns.
void close(tarn_recycler* recycler);
// Requires: closed.
void free(tarn_recycler* recycler);

// The calling thread's bin, made if needed. Null when the thread is about to end, or there is no memory.
recycler_bin* bin_of(recycler_core* recycler);

// The spare magazine of some other thread's bin; null if there is none.
recycler_magazine* steal(recycler_core* recycler);

// Ends a generation; with `all`, the older one's end too. Returns the objects destroyed.
std::size_t end_generation(recycler_core* recycler, bool all);
// Ends the generations that are due, or all of them, of every recycler. Returns in how many milliseconds to come again,
// -1 when nothing waits anywhere.
std::int64_t end_due_generations(std::int64_t now_ms, bool all);

void get_figures(recycler_core* recycler, tarn_recycler_figures& out);

// While it is pinned a recycler is not closed. Null at the end.
recycler_core* first_pinned();
recycler_core* next_pinned(recycler_core* recycler);
template <class Visit>
void for_each(Visit visit) {
  for (recycler_core* r = first_pinned(); r != nullptr; r = next_pinned(r)) visit(*r);
}

}  // namespace tarn::recycler_registry
