// SPDX-License-Identifier: MIT
// recycler_stats: a recycler's counters; shared by tarn/recycler.hpp and tarn/stats.hpp.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <cstdint>

#include "tarn/detail/recycler_abi.hpp"

namespace tarn {
inline namespace TARN_ABI {

struct recycler_stats {
  std::uint64_t gets;  // hits + victims + misses
  std::uint64_t hits;  // gets served by the calling thread's own array. Objects brought into threads' arrays:
  std::uint64_t exchanged;    //   from arrays that other threads had handed over
  std::uint64_t stolen;       //   out of other threads' arrays
  std::uint64_t victims;      // gets served by the older generation
  std::uint64_t misses;       // gets for which an object was built
  std::uint64_t over_budget;  // objects destroyed when they came back: no room in the budget
  std::uint64_t too_large;    //   above largest_object
  std::uint64_t oversized;    //   far larger than recent use
  std::uint64_t at_random;    //   at random, in a debug build
  std::uint64_t unfit;        //   reset() threw
  std::uint64_t aged;         // objects destroyed because they were not used for two cycles, or by trim()
  std::size_t objects;        // idle now
  std::size_t bytes;          // that the idle objects hold
};

namespace detail {

inline recycler_stats stats_of(const tarn_recycler_figures& f) noexcept {
  return {f.hits + f.victims + f.misses,
          f.hits,
          f.exchanged,
          f.stolen,
          f.victims,
          f.misses,
          f.dropped[tarn_recycler_over_budget],
          f.dropped[tarn_recycler_too_large],
          f.dropped[tarn_recycler_oversized],
          f.dropped[tarn_recycler_at_random],
          f.dropped[tarn_recycler_unfit],
          f.dropped[tarn_recycler_aged],
          f.objects,
          f.bytes};
}

}  // namespace detail

}  // namespace TARN_ABI
}  // namespace tarn
