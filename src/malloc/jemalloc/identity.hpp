// SPDX-License-Identifier: MIT
// identity: what this library says it is, and limits that several names share.
#pragma once

#include <cstddef>

#include "base/units.hpp"
#include "slots/size_class.hpp"

namespace tarn::jemalloc {

// As jemalloc's own version strings: programs compare the numbers before the first dash.
inline constexpr const char* version = "5.3.0-0-gtarn_" TARN_VERSION;

// The number of arenas that exist from the beginning. Their index is 0.
inline constexpr unsigned automatic_arenas = 1;

// The index of arena.<i> and stats.arenas.<i> that stands for all arenas together.
inline constexpr std::size_t all_arenas = 4096;

// "Bins" are tarn's size classes without the class 0; jemalloc calls a span of a class a slab.
inline constexpr unsigned bin_count = size_classes::count - 1;
constexpr unsigned class_of_bin(std::size_t bin) { return static_cast<unsigned>(bin) + 1; }

}  // namespace tarn::jemalloc
