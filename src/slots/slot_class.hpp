// SPDX-License-Identifier: MIT
// slot_class: how slots of one size are cut from spans and travel in magazines. malloc's size classes are a constant
// table of them (size_class.hpp), which scopes use too; a typed pool has one more (fronts/pools/slot_layout.hpp). Depots, bins
// and magazines work on any of them and know no front.
//
// Thread safety: constant. Invariant: reciprocal == ceil(2^64 / size).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace tarn {

// Tunable.
// The most bytes of slots in a full magazine; caches begin with far less (threads/thread_cache_budget.cpp).
inline constexpr std::size_t magazine_bytes = 64 * kib;
// The same for slots of up to 512 bytes: many of them fit, so one refill already serves many calls.
inline constexpr std::size_t magazine_bytes_small = 16 * kib;
inline constexpr std::size_t largest_magazine = 252;
// At most this fraction of a span may be left over because no slot fits.
inline constexpr std::size_t tail_waste_divisor = 8;

// Division by a slot's size is multiplication by its reciprocal, ceil(2^64 / size), in 128 bits: the high half is the
// quotient, and the low half is below the reciprocal exactly if there is no remainder. (Lemire, Kaser, Kurz, "Faster
// remainder by direct computation", Software: Practice and Experience 49, 2019.)
__extension__ using wide = unsigned __int128;

struct slot_class {
  constexpr slot_class() = default;
  constexpr explicit slot_class(std::size_t bytes)
      : size(bytes), reciprocal(~std::uint64_t{0} / bytes + 1), magazine(magazine_for(bytes)) {}

  std::size_t size = 0;
  // For a distance up to a span's length, bits 64 and above of distance * reciprocal are the quotient, and the lower bits
  // are less than reciprocal if and only if size divides the distance.
  std::uint64_t reciprocal = 0;
  std::uint16_t objects = 0;     // per span; 0: its spans differ
  std::uint16_t span_pages = 0;  // 0: as above
  std::uint8_t magazine = 0;     // most slots in a magazine

  static constexpr std::uint8_t magazine_for(std::size_t size) {
    const std::size_t bytes = size <= 512 ? magazine_bytes_small : magazine_bytes;
    return static_cast<std::uint8_t>(std::clamp<std::size_t>(bytes / size, 1, largest_magazine));
  }
  // The least number of pages, `pages` or more, of which slots fill all but a small part.
  static constexpr std::size_t pages_well_filled(std::size_t pages, std::size_t size) {
    while ((pages << page_shift) % size * tail_waste_divisor > pages << page_shift) ++pages;
    return pages;
  }
};

}  // namespace tarn
