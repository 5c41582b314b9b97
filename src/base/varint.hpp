// SPDX-License-Identifier: MIT
// varint: a number in groups of seven bits, the lowest first, each byte but the last with its highest bit set.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tarn {

inline constexpr std::size_t most_varint_bytes = 10;

constexpr std::size_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1U)) + 6) / 7;
}

// Writes at `at`, which must have room for most_varint_bytes; returns the end.
constexpr std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) *at++ = static_cast<std::uint8_t>(value | 0x80U);
  *at++ = static_cast<std::uint8_t>(value);
  return at;
}

// Reads at `at`, before `end`; null: it is cut off or exceeds 64 bits.
constexpr const std::uint8_t* get_varint(const std::uint8_t* at, const std::uint8_t* end,
                                         std::uint64_t& value) {
  std::uint64_t result = 0;
  for (unsigned shift = 0; at != end && shift < 64; shift += 7) {
    const std::uint8_t byte = *at++;
    if (shift == 63 && byte > 1) return nullptr;
    result |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) {
      value = result;
      return at;
    }
  }
  return nullptr;
}

}  // namespace tarn
