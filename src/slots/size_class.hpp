// SPDX-License-Identifier: MIT
// size_class: request size -> class; class -> object size, span length, magazine length. All tables are computed at
// compile time.
//
// Classes: 8; then steps of 16 up to 128; then eight steps per doubling up to 256 KiB. So the rounding loss
// is at most 15 bytes up to 128 and at most 1/9 above. (Between 65 and 112 bytes, 15 bytes can be up to 19 %
// of a request: blocks from 16 bytes on must be aligned to 16, so no class could be closer.)
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "slots/slot_class.hpp"

namespace tarn {

// Tunable.
inline constexpr std::size_t largest_class_size = 256 * kib;
// A span has at least least_span_bytes, unless it would then have more than most_span_objects objects; and room for
// objects_wanted objects if that needs at most wanted_span_bytes.
inline constexpr std::size_t least_span_bytes = 8 * kib;
inline constexpr std::size_t most_span_objects = 512;
inline constexpr std::size_t objects_wanted = 4;
inline constexpr std::size_t wanted_span_bytes = 64 * kib;
// The most bytes in a magazine of freed blocks of grains. Their sizes are not known; each counts as the largest one.
inline constexpr std::size_t magazine_bytes_of_grains = 128 * kib;

namespace size_classes {

inline constexpr std::size_t linear_step = 16;
inline constexpr std::size_t linear_end = 128;
inline constexpr unsigned steps_per_doubling = 8;
// page_map::entry::begins_object() adds less than this to a multiple of a reciprocal.
inline constexpr std::uint64_t most_added = std::uint64_t{1} << 17;
inline constexpr unsigned doublings =
    static_cast<unsigned>(std::bit_width(largest_class_size) - std::bit_width(linear_end));

// Class 0 is no class: the page map's answer for pages without objects.
inline constexpr unsigned count = 1 + 1 + linear_end / linear_step + steps_per_doubling * doublings;

// The classes behind `count` are grains, which no request is mapped to. A span whose class is hardly in use is
// divided into grains, and runs of grains serve blocks of every size (grains.hpp).
inline constexpr std::size_t least_grain = 16;
inline constexpr unsigned grain_classes = 5;
inline constexpr unsigned all = count + grain_classes;
static_assert(all <= 128, "a class is seven bits in the page map");
// The most grains of one span.
inline constexpr std::size_t most_grains = 512;
// The most bytes of a block of grains. Longer runs of free grains are rare.
inline constexpr std::size_t largest_of_grains = 16 * kib;

constexpr bool is_grain(unsigned c) { return c >= count; }

using info = slot_class;

constexpr std::uint32_t size_of_class(unsigned c) {
  if (c == 0) return 0;
  if (c == 1) return 8;
  if (is_grain(c)) return static_cast<std::uint32_t>(least_grain << (c - count));
  constexpr unsigned linear_classes = linear_end / linear_step;
  if (c <= 1 + linear_classes) return static_cast<std::uint32_t>((c - 1) * linear_step);
  const unsigned beyond = c - 2 - linear_classes;
  const std::size_t base = linear_end << (beyond / steps_per_doubling);
  return static_cast<std::uint32_t>(base + base / steps_per_doubling * (beyond % steps_per_doubling + 1));
}

// The size of the class's objects; of a grain class, that of the largest block.
constexpr std::size_t most_block_bytes(unsigned c) {
  return is_grain(c) ? std::min(size_of_class(c) * most_grains, largest_of_grains) : size_of_class(c);
}

constexpr std::size_t span_pages_for(std::size_t size) {
  const std::size_t wanted = std::min(size * objects_wanted, wanted_span_bytes);
  const std::size_t least = std::max({std::min(least_span_bytes, most_span_objects * size), wanted, size});
  return slot_class::pages_well_filled(pages_for(least), size);
}

constexpr info make_info(unsigned c) {
  if (c == 0) return {};
  const std::size_t size = size_of_class(c);
  info out(size);
  if (is_grain(c)) {
    out.magazine = static_cast<std::uint8_t>(magazine_bytes_of_grains / most_block_bytes(c));
    return out;
  }
  const std::size_t pages = span_pages_for(size);
  out.span_pages = static_cast<std::uint16_t>(pages);
  out.objects = static_cast<std::uint16_t>((pages << page_shift) / size);
  return out;
}

constexpr auto make_table() {
  std::array<info, all> table{};
  for (unsigned c = 0; c < all; ++c) table[c] = make_info(c);
  return table;
}

// Two tables of one byte per step: requests up to 1 KiB in steps of 8, above in steps of 128.
inline constexpr std::size_t fine_end = 1 * kib;
inline constexpr unsigned fine_shift = 3;
inline constexpr unsigned coarse_shift = 7;

template <std::size_t Entries>
constexpr auto make_lookup(unsigned shift) {
  std::array<std::uint8_t, Entries> lookup{};
  unsigned c = 1;
  for (std::size_t i = 0; i < Entries; ++i) {
    while (size_of_class(c) < i << shift) ++c;
    lookup[i] = static_cast<std::uint8_t>(c);
  }
  return lookup;
}

inline constexpr auto table = make_table();
inline constexpr auto fine_lookup = make_lookup<(fine_end >> fine_shift) + 1>(fine_shift);
inline constexpr auto coarse_lookup = make_lookup<(largest_class_size >> coarse_shift) + 1>(coarse_shift);

// Whether the class's objects are longer than fine_end.
constexpr bool is_coarse(unsigned c) { return c > fine_lookup.back() && !is_grain(c); }
// Whether its spans may be divided into grains. Those of coarse classes are not: the marks of their objects lie elsewhere
// than those of grains (free_mark.hpp), and an object in a magazine would have none when its span has been divided.
constexpr bool may_be_divided(unsigned c) { return !is_grain(c) && !is_coarse(c); }

// The largest grain whose size divides the class's object size and of which a span has at most most_grains / 2; if
// there is none, the smallest grain; 0 if even that one is not possible, or its spans may not be divided.
constexpr unsigned grain_of(unsigned c) {
  if (!may_be_divided(c)) return 0;
  const std::size_t span_bytes = std::size_t{table[c].span_pages} << page_shift;
  for (unsigned g = count; g < all; ++g) {
    if (table[c].size % table[g].size == 0 && span_bytes / table[g].size <= most_grains / 2) return g;
  }
  return table[c].size % least_grain == 0 && span_bytes / least_grain <= most_grains ? count : 0;
}

}  // namespace size_classes

// Requires: size <= size_classes::fine_end.
TARN_ALWAYS_INLINE unsigned fine_class_of(std::size_t size) {
  return size_classes::fine_lookup[(size + 7) >> size_classes::fine_shift];
}

// Requires: size <= largest_class_size.
TARN_ALWAYS_INLINE unsigned class_of_size(std::size_t size) {
  if (size <= size_classes::fine_end) return fine_class_of(size);
  return size_classes::coarse_lookup[(size + 127) >> size_classes::coarse_shift];
}

TARN_ALWAYS_INLINE constexpr const size_classes::info& class_info(unsigned c) {
  return size_classes::table[c];
}

// The least class that holds `size` bytes and whose object size is a multiple of the alignment, a power of two;
// size_classes::count: none. The last object of a span ends where the span does, at a page boundary; so the objects of
// the class's own spans are aligned. (Runs of grains need not be.)
TARN_ALWAYS_INLINE unsigned aligned_class_of(std::size_t size, std::size_t alignment) {
  if (size > largest_class_size || alignment > page_size) return size_classes::count;
  return class_of_size(align_up(size > alignment ? size : alignment, alignment));  // aligned_classes_hold()
}

constexpr std::size_t span_bytes(unsigned c) { return std::size_t{class_info(c).span_pages} << page_shift; }

// ---- what must hold of the tables ----

namespace size_classes {

// The class of a request that is a multiple of a power of two up to a page has objects whose size is a multiple of it: no
// other class's range of requests has such a multiple.
constexpr bool aligned_classes_hold() {
  for (std::size_t alignment = 8; alignment <= page_size; alignment *= 2) {
    for (unsigned c = 1; c < count; ++c) {
      if (table[c].size % alignment != 0 && table[c].size / alignment != table[c - 1].size / alignment)
        return false;
    }
  }
  return largest_class_size % page_size == 0;
}
static_assert(aligned_classes_hold());

constexpr bool tables_hold() {
  for (unsigned c = 1; c < count; ++c) {
    const info& i = table[c];
    const std::size_t span_bytes = std::size_t{i.span_pages} << page_shift;
    if (c > 1 && i.size <= table[c - 1].size) return false;
    if (i.size >= 16 && i.size % 16 != 0) return false;
    if (i.size > linear_end && (i.size - table[c - 1].size) * std::size_t{8} > i.size) return false;
    if (i.objects == 0 || (span_bytes - std::size_t{i.objects} * i.size) * tail_waste_divisor > span_bytes)
      return false;
    // The rounding error of the reciprocal, times the largest quotient, must stay below one object; with what the page
    // map adds.
    const auto error = static_cast<std::uint64_t>(wide{i.reciprocal} * i.size);
    if (wide{error} * (span_bytes / i.size + 2) + most_added >= i.reciprocal) return false;
  }
  return size_of_class(count - 1) == largest_class_size;
}
static_assert(tables_hold());

}  // namespace size_classes

}  // namespace tarn
