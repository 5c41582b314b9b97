// SPDX-License-Identifier: MIT
// Statistics of all typed pools, recyclers, buffer pools and locks; trim(), which gives the idle memory of all of tarn
// back to the system; and the hook for pools that are destroyed while objects are live.
//
// Use it for monitoring, tests and tuning. Do not call it on hot paths: every function takes locks.
// Thread safety: every function may be called by any thread. While other threads allocate, the figures of one result
// may be of slightly different moments. Units: bytes where a name says so, else counts.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tarn/detail/buffer_abi.hpp"
#include "tarn/detail/pool_abi.hpp"
#include "tarn/detail/recycler_abi.hpp"
#include "tarn/malloc.h"
#include "tarn/recycler_stats.hpp"

namespace tarn {
inline namespace TARN_ABI {

namespace detail {

// Copies the name; leaves it empty when there is no memory, because a visit must not throw.
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

// What visit(receive, context) shows, each made into a Value by make(), with the name beside it.
template <class Value, class Figures>
std::vector<Value> collect(void (*visit)(void (*)(void*, const char*, const Figures*), void*),
                           Value (*make)(const Figures&)) {
  std::size_t count = 0;
  visit([](void* context, const char*, const Figures*) { ++*static_cast<std::size_t*>(context); }, &count);
  struct collected {
    std::vector<Value> all;
    Value (*make)(const Figures&);
  } to{{}, make};
  // Room for what is made meanwhile: the visit itself must not allocate, as it must not throw.
  to.all.reserve(count + 64);
  visit(
      [](void* context, const char* name, const Figures* figures) {
        auto& out = *static_cast<collected*>(context);
        if (out.all.size() == out.all.capacity()) return;
        out.all.push_back(out.make(*figures));
        assign_name(out.all.back().name, name);
      },
      &to);
  return std::move(to.all);
}

}  // namespace detail

struct named_pool_stats {
  std::string name;          // the type's name as the compiler writes it, or pool_options::name
  std::size_t live;          // objects in the program's hands
  std::size_t peak;          // as pool_stats::peak
  std::size_t bytes;         // of the pool's spans
  std::size_t cached;        // free slots in magazines, of threads or handed over
  std::uint64_t hits;        // as pool_stats::hits
  std::uint64_t refills;     // allocations that had to fill a magazine from spans
  std::size_t object_bytes;  // of a slot
};

// All typed pools, in no particular order. Throws std::bad_alloc. Cost: some locks per pool.
inline std::vector<named_pool_stats> pools() {
  return detail::collect<named_pool_stats, tarn_pool_figures>(
      tarn_pool_visit, [](const tarn_pool_figures& f) {
        return named_pool_stats{{}, f.live, f.peak, f.bytes, f.cached, f.hits, f.refills, f.object_bytes};
      });
}

struct named_recycler_stats {
  std::string name;  // the type's name as the compiler writes it, or recycler_options::name
  recycler_stats stats;
};

// All recyclers, in no particular order. Throws std::bad_alloc. Cost: some microseconds per recycler.
inline std::vector<named_recycler_stats> recyclers() {
  return detail::collect<named_recycler_stats, tarn_recycler_figures>(
      tarn_recycler_visit, [](const tarn_recycler_figures& f) {
        return named_recycler_stats{{}, detail::stats_of(f)};
      });
}

struct named_buffer_pool_stats {
  std::string name;                // buffer_pool_options::name
  std::uint64_t gets;              // buffers handed out: hits + misses
  std::uint64_t hits;              // served by idle buffers of the pool
  std::uint64_t misses;            // served by the page heap or the system
  std::size_t live;                // buffers in the program's hands
  std::size_t live_bytes;          // of these
  std::size_t kept_bytes;          // of idle buffers
  std::uint64_t given_back;        // bytes given to the system so far
  std::uint64_t zeroed_by_memset;  // bytes
  std::uint64_t zeroed_by_system;  // bytes, by fresh pages in place of used ones
  std::size_t budget;              // most bytes of idle buffers, in effect now
};

// All buffer pools, in no particular order. Throws std::bad_alloc. Cost: a lock per pool.
inline std::vector<named_buffer_pool_stats> buffer_pools() {
  return detail::collect<named_buffer_pool_stats, tarn_buffer_figures>(
      tarn_buffer_visit, [](const tarn_buffer_figures& f) {
        return named_buffer_pool_stats{
            {},           f.gets,       f.hits,       f.misses,           f.live,
            f.live_bytes, f.kept_bytes, f.given_back, f.zeroed_by_memset, f.zeroed_by_system,
            f.budget};
      });
}

// Gives the idle memory of malloc, of typed pools, of recyclers and of buffer pools back to the system, except `keep`
// bytes of free pages. Returns the bytes given back. Cost: a system call per free range.
inline std::size_t trim(std::size_t keep = 0) noexcept { return tarn_trim(keep); }

// Sets the function that is called when a typed pool is destroyed while objects of it are live, with the pool's name
// and their number. Null: the default, which writes one line to stderr; for a pool of static storage duration only when
// the process has run all static destructors, and only if objects are still live: objects that are destroyed later than
// their pool are no leak. Returns the previous hook.
inline tarn_pool_leak_hook set_leak_hook(tarn_pool_leak_hook hook) noexcept {
  return tarn_pool_set_leak_hook(hook);
}

}  // namespace TARN_ABI
}  // namespace tarn
