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
inline constexpr std::uint64_t all_free = ~std::uint64_t{0};

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

inline bool any_free(const byte* array, std::size_t capacity) {
  for (std::size_t i = 0; i < capacity; i += group) {
    const std::uint64_t w = load_group(array + i);
    // A byte of w is 255 exactly if that byte of ~w is zero.
    const std::uint64_t x = ~w;
    if (((x - 0x0101010101010101U) & ~x & 0x8080808080808080U) != 0) return true;
  }
  return false;
}

inline std::size_t count_free(const byte* array, std::size_t capacity) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < capacity; i += group) {
    // In each byte: its lowest bit survives every step only if all eight were set.
    std::uint64_t w = load_group(array + i);
    w &= w >> 4;
    w &= w >> 2;
    w &= w >> 1;
    count += static_cast<std::size_t>(std::popcount(w & 0x0101010101010101U));
  }
  return count;
}

inline bool are_all_free(const byte* array, std::size_t capacity) {
  // The ends first: of a span that is partly in use, one of them usually says so.
  if (array[0].load(std::memory_order_relaxed) != object_free ||
      array[capacity - 1].load(std::memory_order_relaxed) != object_free ||
      array[capacity / 2].load(std::memory_order_relaxed) != object_free) {
    return false;
  }
  const std::size_t whole = capacity / group * group;
  for (std::size_t i = 0; i < whole; i += group) {
    if (load_group(array + i) != all_free) return false;
  }
  for (std::size_t i = whole; i < capacity; ++i) {
    if (array[i].load(std::memory_order_acquire) != object_free) return false;
  }
  return true;
}

// Writes the indices of free objects from `from` on, in order, to `out`, at most `most` of them. Returns how
// many; `from` is then where to go on.
inline std::size_t find_free(const byte* array, std::size_t capacity, std::size_t& from, std::uint16_t* out,
                             std::size_t most) {
  std::size_t found = 0;
  std::size_t i = from;
  while (i < capacity && found < most) {
    if (i % group == 0 && most - found >= group) {
      const std::uint64_t w = load_group(array + i);
      if (w == all_free) {
        for (std::size_t k = 0; k < group; ++k) out[found++] = static_cast<std::uint16_t>(i + k);
        i += group;
        continue;
      }
      if (w == 0) {
        i += group;
        continue;
      }
    }
    if (array[i].load(std::memory_order_acquire) == object_free) out[found++] = static_cast<std::uint16_t>(i);
    ++i;
  }
  from = i;
  return found;
}

}  // namespace objects

}  // namespace tarn
