// SPDX-License-Identifier: MIT
// identity: what this library says it is, and limits that several names share.
#pragma once

#include <cstddef>

#include "base/units.hpp"
#include "central/size_class.hpp"

namespace tarn::jemalloc {

// As jemalloc's own version strings: programs compare the numbers before the first dash.
inline constexpr const char* version = "5.3.0-0-gtarn_" TARN_VERSION;

// The number of arenas that exist from the beginning. Their index is 0.
inline constexpr unsigned automatic_arenas = 1;

// Indices of arena.<i> and stats.arenas.<i> that stand for all arenas together, and for those that were destroyed.
inline constexpr std::size_t all_arenas = 4096;
inline constexpr std::size_t destroyed_arenas = 4097;

// "Bins" are tarn's size classes without the class 0; jemalloc calls a span of a class a slab.
inline constexpr unsigned bin_count = size_classes::count - 1;
constexpr unsigned class_of_bin(std::size_t bin) { return static_cast<unsigned>(bin) + 1; }

// Large sizes are multiples of a page. For programs that want a list, there are four steps per doubling, as jemalloc has.
inline constexpr unsigned steps_of_large = 4;
inline constexpr std::size_t largest_listed = std::size_t{1} << 44;
constexpr std::size_t large_size(unsigned index) {
  const std::size_t base = largest_class_size << (index / steps_of_large);
  return base + base / steps_of_large * (index % steps_of_large + 1);
}
constexpr unsigned count_large_sizes() {
  unsigned count = 0;
  while (large_size(count) <= largest_listed) ++count;
  return count;
}
inline constexpr unsigned large_count = count_large_sizes();

}  // namespace tarn::jemalloc
