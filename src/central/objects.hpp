// SPDX-License-Identifier: MIT
// Objects of a cut span: which one an address is, and looking for free ones among the span's bytes.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "central/size_class.hpp"
#include "pages/span.hpp"

namespace tarn {

struct object_index {
  std::size_t index;
  bool exact;  // the address is the first byte of an object
};

// Requires: s is cut into objects and contains the address.
TARN_ALWAYS_INLINE object_index index_in(const span* s, std::uintptr_t address) {
  const wide product = wide{address - s->start} * s->reciprocal;
  return {static_cast<std::size_t>(product >> 64), static_cast<std::uint64_t>(product) < s->reciprocal};
}

namespace objects {

using byte = std::atomic<std::uint8_t>;
inline constexpr std::size_t group = 8;

// Arrays have at least one byte behind the last object's, for the tail of a span that is no object, and are
// whole groups.
constexpr std::size_t array_bytes(std::size_t capacity) { return align_up(capacity + 1, group); }

// Eight bytes at once. acquire: whoever finds a byte free sees what its last user wrote to the object; the
// partner is the release store in central::flush.
inline std::uint64_t load_group(const byte* first) {
  std::uint64_t word = 0;
#if TARN_TSAN
  for (std::size_t i = 0; i < group; ++i) {
    word |= std::uint64_t{first[i].load(std::memory_order_acquire)} << (8 * i);
  }
#else
  std::memcpy(&word, static_cast<const void*>(first), sizeof word);
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return word;
}

inline void fill_free(byte* array, std::size_t capacity) {
  std::memset(static_cast<void*>(array), no_object, array_bytes(capacity));
  std::memset(static_cast<void*>(array), object_free, capacity);
}

// For checks: how many are free.
inline std::size_t count_free(const byte* array, std::size_t capacity) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < capacity; ++i)
    count += array[i].load(std::memory_order_relaxed) == object_free ? 1 : 0;
  return count;
}

// Writes the indices of free objects, in order, to `out`, at most `most` of them. Returns how many.
inline std::size_t find_free(const byte* array, std::size_t capacity, std::uint16_t* out, std::size_t most) {
  std::size_t found = 0;
  for (std::size_t first = 0; first < capacity && found < most; first += group) {
    const std::uint64_t w = load_group(array + first);
    // A byte of x is zero exactly if that byte of w is object_free; `zero` has its top bit set in those
    // bytes, and maybe in some above them, which the look at each byte sorts out.
    const std::uint64_t x = ~w;
    std::uint64_t zero = (x - 0x0101010101010101U) & ~x & 0x8080808080808080U;
    for (; zero != 0 && found < most; zero &= zero - 1) {
      const auto byte_index = static_cast<std::size_t>(std::countr_zero(zero)) / 8;
      if (((w >> (8 * byte_index)) & 0xFF) == object_free)
        out[found++] = static_cast<std::uint16_t>(first + byte_index);
    }
  }
  return found;
}

}  // namespace objects

}  // namespace tarn
