// SPDX-License-Identifier: MIT
// slot_sizes: which slot size of a fixed set serves a request of a given size and alignment; tables made at compile
// time.
//
// Sizes: steps of 8 up to 128, then eight steps per doubling up to 4 KiB. So rounding wastes at most 7 bytes up to 128,
// and at most 1/8 of the request above. A slot has the alignment of the largest power of two that divides its size.
// Thread safety: constant data.
#pragma once

#include "tarn/detail/abi.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail::slot_sizes {

inline constexpr std::size_t step = 8;
inline constexpr std::size_t linear_end = 128;
inline constexpr std::size_t steps_per_doubling = 8;
inline constexpr std::size_t largest = 4096;

inline constexpr std::size_t linear_count = linear_end / step;
inline constexpr std::size_t count =
    linear_count + steps_per_doubling * static_cast<std::size_t>(std::bit_width(largest / linear_end) - 1);

constexpr std::size_t make_size(std::size_t index) {
  if (index < linear_count) return (index + 1) * step;
  const std::size_t base = linear_end << ((index - linear_count) / steps_per_doubling);
  return base + base / steps_per_doubling * ((index - linear_count) % steps_per_doubling + 1);
}
constexpr auto make_sizes() {
  std::array<std::uint16_t, count> sizes{};
  for (std::size_t i = 0; i < count; ++i) sizes[i] = static_cast<std::uint16_t>(make_size(i));
  return sizes;
}
inline constexpr auto sizes = make_sizes();

constexpr std::size_t size_of(std::size_t index) { return sizes[index]; }
constexpr std::size_t alignment_of(std::size_t index) { return size_of(index) & (~size_of(index) + 1); }

// Size -> index in two tables of one byte per step: up to 1 KiB in steps of 8, above in steps of 128.
inline constexpr std::size_t quick_bytes = 1024;
inline constexpr std::size_t quick_alignment = 16;
inline constexpr std::size_t coarse_step = 128;

template <std::size_t Entries>
constexpr auto make_lookup(std::size_t bytes_per_entry) {
  std::array<std::uint8_t, Entries> lookup{};
  std::uint8_t index = 0;
  for (std::size_t i = 0; i < Entries; ++i) {
    while (size_of(index) < i * bytes_per_entry) ++index;
    lookup[i] = index;
  }
  return lookup;
}
inline constexpr auto fine_lookup = make_lookup<quick_bytes / step + 1>(step);
inline constexpr auto coarse_lookup = make_lookup<largest / coarse_step + 1>(coarse_step);

// The least size that holds `bytes`. Requires: bytes <= largest.
constexpr std::size_t index_of(std::size_t bytes) {
  return bytes <= quick_bytes ? fine_lookup[(bytes + step - 1) / step]
                              : coarse_lookup[(bytes + coarse_step - 1) / coarse_step];
}

constexpr std::size_t align_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

constexpr bool is_quick(std::size_t bytes, std::size_t alignment) {
  return bytes - 1 < quick_bytes && alignment <= quick_alignment;  // 0 wraps: it is served by find()
}
// Requires: is_quick. One table read is enough, because the size found for a request rounded up to an alignment of at
// most 16 has that alignment: up to 128 every multiple of 8 is a size, and above all sizes are multiples of 16.
constexpr std::size_t quick_find(std::size_t bytes, std::size_t alignment) {
  return fine_lookup[(align_up(bytes, alignment) + step - 1) / step];
}

// `count` if no slot is large or strictly aligned enough.
constexpr std::size_t find(std::size_t bytes, std::size_t alignment) {
  if (bytes > largest || alignment > largest) return count;
  std::size_t index = index_of(bytes > alignment ? bytes : alignment);
  while ((size_of(index) & (alignment - 1)) != 0) ++index;  // at the latest the next power of two
  return index;
}

// ---- check of the tables ----

constexpr bool sizes_hold() {
  if (size_of(count - 1) != largest || count > UINT8_MAX) return false;
  for (std::size_t bytes = 0; bytes <= largest; ++bytes) {
    const std::size_t index = index_of(bytes);
    if (size_of(index) < bytes || (index > 0 && size_of(index - 1) >= bytes)) return false;
    if (bytes > linear_end && (size_of(index) - bytes) * 8 > bytes) return false;
  }
  for (std::size_t alignment = 1; alignment <= quick_alignment; alignment *= 2) {
    for (std::size_t bytes = 0; bytes <= quick_bytes; ++bytes) {
      if (is_quick(bytes, alignment) && quick_find(bytes, alignment) != find(bytes, alignment)) return false;
      if (alignment_of(find(bytes, alignment)) < alignment) return false;
    }
  }
  return true;
}
static_assert(sizes_hold());

}  // namespace detail::slot_sizes
TARN_NAMESPACE_END
}  // namespace tarn
