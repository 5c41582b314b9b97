// SPDX-License-Identifier: MIT
// objects: the objects of a cut span: the index of an address, and the bits that say which objects are free.
//
// Thread safety: the bits are guarded by the lock of the class's depot.
// Invariant: bit i is set exactly if object i is free and in the span, for i < capacity; all other bits are clear.
// free_objects == number of bits set. No free grain has its tie bit set. (validate(), which slot_spans calls for its
// spans.)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "os/invariant.hpp"
#include "pages/span.hpp"
#include "slots/size_class.hpp"

namespace tarn {

// Whether the distance from the first byte of an object is a multiple of the object size, so that another object begins
// there. The fast path of free() checks every pointer so. Requires: distance below the longest span.
TARN_ALWAYS_INLINE bool is_multiple(std::size_t distance, std::uint64_t reciprocal) {
  return distance * reciprocal < reciprocal;
}

namespace objects {

inline constexpr std::size_t bits_per_word = 64;

constexpr std::size_t words(std::size_t capacity) { return (capacity + bits_per_word - 1) / bits_per_word; }
// Bytes of the bits of a span that do not fit into span::inline_bits: the smallest class and the smallest grains have such.
inline constexpr std::size_t bytes_outside = words(class_info(1).objects) * sizeof(std::uint64_t);

inline std::size_t quotient(std::size_t distance, std::uint64_t reciprocal) {
  return static_cast<std::size_t>((wide{distance} * reciprocal) >> bits_per_word);
}
inline std::uintptr_t first_of(const span* s) {
  return s->end() - std::size_t{s->capacity} * class_info(s->size_class).size;
}
inline void* at(const span* s, std::size_t index) {
  return reinterpret_cast<void*>(first_of(s) + index * class_info(s->size_class).size);
}
// Requires: an object of s, whose class is `c`, begins at the address.
inline std::size_t index_of(const slot_class& c, const span* s, std::uintptr_t address) {
  const std::uintptr_t first = s->end() - s->capacity * c.size;
  return quotient(address - first, c.reciprocal);
}
inline std::size_t index_of(const span* s, std::uintptr_t address) {
  return index_of(class_info(s->size_class), s, address);
}

inline void set_all_free(std::uint64_t* bits, std::size_t capacity) {
  for (std::size_t w = 0; w < words(capacity); ++w) {
    const std::size_t left = capacity - w * bits_per_word;
    bits[w] = left >= bits_per_word ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
  }
}

// Cuts a span of the class's length, all of whose objects are free. `bits`: room for their bits.
inline void cut(span* s, unsigned size_class, std::uint64_t* bits) {
  s->size_class = static_cast<std::uint8_t>(size_class);
  s->free_objects = s->capacity = class_info(size_class).objects;
  s->free_bits = bits;
  set_all_free(bits, s->capacity);
}

constexpr std::uint64_t bit_of(std::size_t index) { return std::uint64_t{1} << (index % bits_per_word); }
inline bool is_set(const std::uint64_t* bits, std::size_t index) {
  return (bits[index / bits_per_word] & bit_of(index)) != 0;
}
inline std::size_t count(const std::uint64_t* bits, std::size_t capacity) {
  std::size_t set = 0;
  for (std::size_t w = 0; w < words(capacity); ++w) set += static_cast<std::size_t>(std::popcount(bits[w]));
  return set;
}

// Marks the object free. False: it was free already.
inline bool set_free(span* s, std::size_t index) {
  std::uint64_t& word = s->free_bits[index / bits_per_word];
  const std::uint64_t before = word;
  if (TARN_UNLIKELY((before >> (index % bits_per_word) & 1U) != 0)) return false;
  word = before | bit_of(index);
  return true;
}

// Clears the bits of the first free objects, at most `most`, and calls visit(index) for each, in address order. Returns
// their number.
template <class Visit>
std::size_t take_free(span* s, std::size_t most, Visit visit) {
  std::size_t taken = 0;
  for (std::size_t w = 0; w < words(s->capacity) && taken < most; ++w) {
    std::uint64_t bits = s->free_bits[w];
    for (; bits != 0 && taken < most; bits &= bits - 1, ++taken) {
      visit(w * bits_per_word + static_cast<std::size_t>(std::countr_zero(bits)));
    }
    s->free_bits[w] = bits;
  }
  return taken;
}

// ---- grains (grains.hpp): runs of adjacent ones are blocks ----

// A span of grains has as many tie bits behind its free bits: set if the next grain belongs to the same block.
inline std::uint64_t* ties(const span* s) { return s->free_bits + words(s->capacity); }
inline bool is_tied(const span* s, std::size_t index) { return is_set(ties(s), index); }

// The number of adjacent set bits from bit `index` on; stops counting at `most`.
inline std::size_t ones_from(const std::uint64_t* bits, std::size_t index, std::size_t most) {
  std::size_t length = 0;
  while (length < most) {
    const std::size_t at = index + length;
    const std::size_t left = bits_per_word - at % bits_per_word;
    const auto ones =
        static_cast<std::size_t>(std::countr_one(bits[at / bits_per_word] >> (at % bits_per_word)));
    length += ones < left ? ones : left;
    if (ones < left) break;
  }
  return length < most ? length : most;
}
// Sets the bits [index, index + length), or clears them.
inline void write_run(std::uint64_t* bits, std::size_t index, std::size_t length, bool value) {
  while (length != 0) {
    const std::size_t at = index % bits_per_word;
    const std::size_t here = length < bits_per_word - at ? length : bits_per_word - at;
    const std::uint64_t mask = ~std::uint64_t{0} >> (bits_per_word - here) << at;
    std::uint64_t& word = bits[index / bits_per_word];
    word = value ? word | mask : word & ~mask;
    index += here;
    length -= here;
  }
}

// The number of grains of the block that begins at grain `index`.
inline std::size_t run_length(span* s, std::size_t index) {
  return ones_from(ties(s), index, s->capacity - index - 1) + 1;
}
// Makes `length` free grains a block.
inline void tie(span* s, std::size_t index, std::size_t length) {
  write_run(s->free_bits, index, length, false);
  write_run(ties(s), index, length - 1, true);
}
// Frees the block that begins at grain `index`. Returns its length; 0: no block begins there.
inline std::size_t untie(span* s, std::size_t index) {
  if (index != 0 && is_tied(s, index - 1)) return 0;
  if (is_set(s->free_bits, index)) return 0;
  const std::size_t length = run_length(s, index);
  write_run(s->free_bits, index, length, true);
  write_run(ties(s), index, length - 1, false);
  return length;
}

// The number of adjacent free grains from `index` on; stops counting at `most`.
inline std::size_t free_from(const span* s, std::size_t index, std::size_t most) {
  const std::size_t behind = s->capacity - index;
  return ones_from(s->free_bits, index, most < behind ? most : behind);
}
// The first run of `length` free grains that begins at `index` or later; the span's capacity if there is none.
inline std::size_t find_run(const span* s, std::size_t index, std::size_t length) {
  while (index + length <= s->capacity) {
    const std::uint64_t rest = s->free_bits[index / bits_per_word] >> (index % bits_per_word);
    if (rest == 0) {
      index = (index / bits_per_word + 1) * bits_per_word;
      continue;
    }
    index += static_cast<std::size_t>(std::countr_zero(rest));
    const std::size_t found = free_from(s, index, length);
    if (found == length) return index;
    index += found + 1;
  }
  return s->capacity;
}

// For tests and for divide().
inline bool is_free(const span* s, std::size_t index) { return is_set(s->free_bits, index); }
inline std::size_t count_free(const span* s) { return count(s->free_bits, s->capacity); }

inline void validate(const span* s) {
  const std::size_t bits_in_last_word = s->capacity % bits_per_word;
  const std::uint64_t beyond =
      bits_in_last_word != 0 ? s->free_bits[words(s->capacity) - 1] >> bits_in_last_word : 0;
  TARN_INVARIANT("objects", s, s->free_objects == count_free(s));
  TARN_INVARIANT("objects", s, beyond == 0);
  for (std::size_t w = 0; size_classes::is_grain(s->size_class) && w < words(s->capacity); ++w) {
    const std::uint64_t ties = s->free_bits[words(s->capacity) + w];
    TARN_INVARIANT("objects", s, (ties & s->free_bits[w]) == 0);
  }
}

}  // namespace objects

}  // namespace tarn
