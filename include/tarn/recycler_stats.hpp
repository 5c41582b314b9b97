// SPDX-License-Identifier: MIT
// What a recycler counts; shared by tarn/recycler.hpp and tarn/stats.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tarn/detail/recycler_abi.hpp"

namespace tarn {

struct recycler_stats {
  std::uint64_t gets;
  std::uint64_t hits;         // of them, served by the calling thread's own array; what came to be there:
  std::uint64_t exchanged;    //   objects that other threads had handed over
  std::uint64_t stolen;       //   objects taken out of other threads' arrays
  std::uint64_t victims;      // served by the older generation
  std::uint64_t misses;       // built
  std::uint64_t over_budget;  // dropped when they came back, because there was no room in the budget
  std::uint64_t too_large;    //   above largest_object
  std::uint64_t oversized;    //   held far more than was used of late
  std::uint64_t at_random;    //   in a debug build
  std::uint64_t unfit;        //   reset() threw
  std::uint64_t aged;         // destroyed because nobody wanted them, or by trim()
  std::size_t objects;        // that wait now
  std::size_t bytes;          // that these hold
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

}  // namespace tarn
