// SPDX-License-Identifier: MIT
// figures: the statistics, as of the last write to "epoch", as jemalloc keeps them.
//
// Owner: this layer has one set. Thread safety: any thread. refresh() takes the locks of all depots, one at a time.
// Invariant: allocated <= active <= resident.
#pragma once

#include <cstddef>
#include <cstdint>

#include "malloc/jemalloc/identity.hpp"
#include "os/mutex.hpp"

namespace tarn::jemalloc {

struct bin_figures {
  std::size_t regions;  // live objects, and objects in caches
  std::size_t slabs;    // spans
};

struct figures {
  std::uint64_t epoch;
  std::size_t allocated;
  std::size_t small;  // part of `allocated`, in objects of size classes
  std::size_t large;  // part of `allocated`
  std::size_t active;
  std::size_t resident;
  std::size_t mapped;
  std::size_t retained;
  std::size_t metadata;
  bin_figures bins[bin_count];
};

// Makes the figures those of this moment.
void refresh();

// Copies what the reader takes from the figures; refreshes them if nobody has yet. `read` runs under a lock.
template <class Read>
auto from_figures(Read read);

// For from_figures() and fork.
os::mutex& figures_lock();
const figures& figures_locked();
void ensure_figures();

template <class Read>
auto from_figures(Read read) {
  ensure_figures();
  os::lock_guard guard(figures_lock());
  return read(figures_locked());
}

}  // namespace tarn::jemalloc
