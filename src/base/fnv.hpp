// SPDX-License-Identifier: MIT
// fnv: FNV-1a of 64 bits (Fowler, Noll, Vo): a key for a few values, not against those who choose the values.
#pragma once

#include <cstdint>
#include <string_view>

namespace tarn {

struct fnv {
  std::uint64_t sum = 0xcbf29ce484222325U;

  constexpr fnv& add(std::uint64_t value) {
    sum = (sum ^ value) * 0x100000001b3U;
    return *this;
  }
  // Byte by byte.
  constexpr fnv& add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    return *this;
  }
};

}  // namespace tarn
