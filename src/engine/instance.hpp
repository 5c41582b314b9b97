// SPDX-License-Identifier: MIT
// instance: the one instance of every tier, and the calling thread's cache.
//
// Everything is constant-initialised, so it works before any constructor has run. Nothing is ever destroyed, so objects
// of any storage duration may be freed at any time. Thread safety: that of each tier.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "pages/block_store.hpp"
#include "pages/first_touch.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"
#include "pages/warm_spans.hpp"
#include "samples/followed/heap_samples.hpp"
#include "samples/guarded/guarded_blocks.hpp"
#include "samples/sample_windows.hpp"
#include "slots/central.hpp"
#include "threads/processor_caches.hpp"
#include "threads/registry.hpp"
#include "threads/thread_cache.hpp"

namespace tarn::engine {

// Hidden visibility: accesses need no global offset table.
#pragma GCC visibility push(hidden)

extern page_map map;
extern central central_tier;

inline constexpr std::size_t least_page = 4 * kib;
// What the first allocation of a process writes, on two pages: `blocks`, and the rest as far as a small heap uses it.
struct first_written {
  alignas(least_page) block_store blocks{metadata};
  alignas(least_page) metadata_arena metadata;
  cache_budget budget;
  thread_cache_registry registry{central_tier, budget};
  processor_caches processors{central_tier, budget, registry};
  first_touch touch;
  page_heap heap{metadata, map, touch};
};
extern first_written tiers;
inline constexpr metadata_arena& metadata = tiers.metadata;
inline constexpr block_store& blocks = tiers.blocks;  // metadata of the fronts
inline constexpr first_touch& touch = tiers.touch;
inline constexpr page_heap& heap = tiers.heap;
inline constexpr cache_budget& budget = tiers.budget;
inline constexpr thread_cache_registry& registry = tiers.registry;
inline constexpr processor_caches& processors = tiers.processors;

extern guarded_blocks guards;
extern sample_windows guard_windows;
extern byte_samples profile_samples;  // which allocations the heap profile knows
extern heap_samples samples;          // and what it knows of them

// Bytes of large blocks, those in warm_large_spans included.
extern std::atomic<std::size_t> large_bytes;
extern std::atomic<std::size_t> arena_bytes;  // pages that arenas have
extern warm_spans warm_large_spans;

// Blocks that outlive their scopes become inaccessible (option scopes).
extern std::atomic<bool> scopes_checked;

// The cache of a thread that has none of its own: every access misses.
extern thread_cache no_cache;

// The calling thread's cache, or &no_cache.
extern thread_local constinit thread_cache* local_cache;
// What malloc pops from: local_cache, or the bins of the scope that the thread has entered (src/fronts/scopes). free() pushes to
// local_cache in any case.
extern thread_local constinit allocation_bins* allocating;

// Whether the calling thread has entered a scope.
inline bool is_in_scope() { return allocating != local_cache; }

// Of a thread that uses the processors' caches; its local_cache is &no_cache.
struct processor_use {
  bool in_use = false;
  // The thread has called vfork, and has not found out since that it is not the child. The kernel has no restartable
  // sequences for the child, which uses this thread's data.
  bool may_be_vfork_child = false;
  sample_countdown samples;  // of its allocations of all classes
};
extern thread_local constinit processor_use processor_user;

// To the calling thread's next sample of the heap profile, for allocations that no cache counts.
extern thread_local constinit byte_countdown profile_countdown;

// Bytes that the calling thread has allocated and freed.
struct traffic {
  std::uint64_t allocated = 0;
  std::uint64_t freed = 0;
};
// Of these, what did not pass through its own cache: large blocks, and objects that came from the processors' caches or
// straight from spans.
extern thread_local constinit traffic uncached_traffic;
// Where the calling thread wants its traffic after slow calls of malloc (note_traffic()); null: nowhere. Owner: the thread.
extern thread_local constinit traffic* noted_traffic;

#pragma GCC visibility pop

}  // namespace tarn::engine
