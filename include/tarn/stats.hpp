// SPDX-License-Identifier: MIT
// Statistics of typed pools and recyclers by type and of buffer pools by name, giving back the memory of all of tarn at
// once, and the hook for pools that end too early.
//
// Thread safety: every function may be called by any thread. Figures of several threads at work are of slightly
// different moments.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tarn/detail/buffer_abi.hpp"
#include "tarn/detail/pool_abi.hpp"
#include "tarn/detail/recycler_abi.hpp"
#include "tarn/malloc.h"
#include "tarn/recycler_stats.hpp"

namespace tarn {

namespace detail {

// A visit must not throw: what there is no memory for has no name.
inline void assign_name(std::string& to, const char* name) {
#if defined(__cpp_exceptions)
  try {
    to = name;
  } catch (...) {
  }
#else
  to = name;
#endif
}

}  // namespace detail

struct named_pool_stats {
  std::string name;          // the type's name as the compiler writes it, or pool_options::name
  std::size_t live;          // objects in the program's hands
  std::size_t peak;          // no less than the most of them at once, as seen at refills
  std::size_t bytes;         // of the pool's spans
  std::size_t cached;        // free slots in threads' hands and waiting for hand-over
  std::uint64_t hits;        // as pool_stats::hits
  std::uint64_t refills;     // allocations that had to fill a thread's array
  std::size_t object_bytes;  // of a slot
};

// All pools there are, in no particular order. Throws std::bad_alloc. Cost: some locks per pool; not for hot paths.
inline std::vector<named_pool_stats> pools() {
  std::vector<named_pool_stats> all;
  std::size_t count = 0;
  tarn_pool_visit(
      [](void* context, const char*, const tarn_pool_figures*) { ++*static_cast<std::size_t*>(context); },
      &count);
  // Room for pools that are made meanwhile: the visit itself must not throw.
  all.reserve(count + 64);
  tarn_pool_visit(
      [](void* context, const char* name, const tarn_pool_figures* figures) {
        auto& out = *static_cast<std::vector<named_pool_stats>*>(context);
        if (out.size() == out.capacity()) return;
        out.push_back({{},
                       figures->live,
                       figures->peak,
                       figures->bytes,
                       figures->cached,
                       figures->hits,
                       figures->refills,
                       figures->object_bytes});
        detail::assign_name(out.back().name, name);
      },
      &all);
  return all;
}

struct named_recycler_stats {
  std::string name;  // the type's name as the compiler writes it, or recycler_options::name
  recycler_stats stats;
};

// All recyclers there are, as pools().
inline std::vector<named_recycler_stats> recyclers() {
  std::vector<named_recycler_stats> all;
  std::size_t count = 0;
  tarn_recycler_visit(
      [](void* context, const char*, const tarn_recycler_figures*) { ++*static_cast<std::size_t*>(context); },
      &count);
  all.reserve(count + 64);
  tarn_recycler_visit(
      [](void* context, const char* name, const tarn_recycler_figures* figures) {
        auto& out = *static_cast<std::vector<named_recycler_stats>*>(context);
        if (out.size() == out.capacity()) return;
        out.push_back({{}, detail::stats_of(*figures)});
        detail::assign_name(out.back().name, name);
      },
      &all);
  return all;
}

struct named_buffer_pool_stats {
  std::string name;                // buffer_pool_options::name
  std::uint64_t gets;              // buffers handed out: hits + misses
  std::uint64_t hits;              // from what the pool had kept
  std::uint64_t misses;            // from the page heap or the system
  std::size_t live;                // buffers in the program's hands
  std::size_t live_bytes;          // of them
  std::size_t kept_bytes;          // of idle buffers
  std::uint64_t given_back;        // bytes given to the system so far
  std::uint64_t zeroed_by_memset;  // bytes
  std::uint64_t zeroed_by_system;  // bytes, by fresh pages in place of used ones
  std::size_t budget;              // of idle buffers, as it holds now
};

// All buffer pools there are, in no particular order. Throws std::bad_alloc. Cost: a lock per pool.
inline std::vector<named_buffer_pool_stats> buffer_pools() {
  std::vector<named_buffer_pool_stats> all;
  std::size_t count = 0;
  tarn_buffer_visit(
      [](void* context, const char*, const tarn_buffer_figures*) { ++*static_cast<std::size_t*>(context); },
      &count);
  // As in pools().
  all.reserve(count + 64);
  tarn_buffer_visit(
      [](void* context, const char* name, const tarn_buffer_figures* f) {
        auto& out = *static_cast<std::vector<named_buffer_pool_stats>*>(context);
        if (out.size() == out.capacity()) return;
        out.push_back({{},
                       f->gets,
                       f->hits,
                       f->misses,
                       f->live,
                       f->live_bytes,
                       f->kept_bytes,
                       f->given_back,
                       f->zeroed_by_memset,
                       f->zeroed_by_system,
                       f->budget});
#if defined(__cpp_exceptions)
        try {
          out.back().name = name;
        } catch (...) {
        }
#else
        out.back().name = name;
#endif
      },
      &all);
  return all;
}

// Gives idle memory of all pools, of malloc and of what tarn keeps mapped back to the system, but for `keep` bytes.
// Returns the bytes given back.
inline std::size_t trim(std::size_t keep = 0) noexcept { return tarn_trim(keep); }

// Called with a pool's name when it ends while objects of it are live; null: one line on stderr, the default. Returns
// the one before.
inline tarn_pool_leak_hook set_leak_hook(tarn_pool_leak_hook hook) noexcept {
  return tarn_pool_set_leak_hook(hook);
}

}  // namespace tarn
