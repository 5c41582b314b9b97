// SPDX-License-Identifier: MIT
// span_states: how a span remembers which of its objects are free: plain bits, atomic words, bytes.
// Owner: the span tiers. Thread safety: mark_free of word_state and byte_state by anyone who holds the
// object;
//   take by the span's only holder; everything of plain_state by one thread at a time.
// Invariant: an object is marked free at most once between two takes of it.
#pragma once

#include <array>
#include <bit>

#include "mini_span_heap.hpp"

namespace experiment {

// One bit per object in plain words, for a state that somebody owns or a lock guards.
template <std::size_t object_bytes>
struct plain_state {
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  std::array<std::uint64_t, capacity / 64> words{};

  void fill() { words.fill(~std::uint64_t{0}); }
  const void* line_of(std::size_t index) const { return &words[index / 64]; }
  void mark_free(std::size_t index) {
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((words[index / 64] & bit) != 0) die("double free");
    words[index / 64] |= bit;
  }
  std::size_t take(char* begin, void** out, std::size_t want) {
    std::size_t got = 0;
    for (std::size_t word = 0; word < words.size() && got < want; ++word) {
      std::uint64_t bits = words[word];
      for (; bits != 0 && got < want; bits &= bits - 1)
        out[got++] = begin + (word * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * object_bytes;
      words[word] = bits;
    }
    return got;
  }
};

// One bit per object in atomic words.
template <std::size_t object_bytes>
struct word_state {
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  static constexpr bool mark_is_fence = true;
  std::array<std::atomic<std::uint64_t>, capacity / 64> words{};

  void fill() {
    for (auto& word : words) word.store(~std::uint64_t{0}, std::memory_order_relaxed);
  }
  const void* line_of(std::size_t index) const { return &words[index / 64]; }
  // seq_cst: precedes the look at the tag; release: the program's last accesses precede the next owner's.
  void mark_free(std::size_t index) {
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((words[index / 64].fetch_or(bit, std::memory_order_seq_cst) & bit) != 0) die("double free");
  }
  bool looks_empty(std::size_t index) {
    return words[index / 64].load(std::memory_order_relaxed) == ~std::uint64_t{0} && all_free();
  }
  bool all_free() const {
    for (const auto& word : words)
      if (word.load(std::memory_order_acquire) != ~std::uint64_t{0}) return false;
    return true;
  }
  bool any_free() const {
    for (const auto& word : words)
      if (word.load(std::memory_order_seq_cst) != 0) return true;
    return false;
  }
  std::size_t take(char* begin, void** out, std::size_t want) {
    std::size_t got = 0;
    for (std::size_t word = 0; word < words.size() && got < want; ++word) {
      if (words[word].load(std::memory_order_relaxed) == 0) continue;
      std::uint64_t bits = words[word].exchange(0, std::memory_order_acq_rel);
      for (; bits != 0 && got < want; bits &= bits - 1)
        out[got++] = begin + (word * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * object_bytes;
      if (bits != 0) words[word].fetch_or(bits, std::memory_order_release);
    }
    return got;
  }
};

// One byte per object: 255 is free in the span, 0 is out. A sentinel remembers an object that was out.
template <std::size_t object_bytes>
struct byte_state {
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  static constexpr bool mark_is_fence = false;
  static constexpr std::uint8_t free_mark = 255;
  std::atomic<std::uint16_t> sentinel{0};
  alignas(16) std::array<std::atomic<std::uint8_t>, capacity> bytes{};

  void fill() {
    std::memset(static_cast<void*>(bytes.data()), free_mark, capacity);
    sentinel.store(0, std::memory_order_relaxed);
  }
  const void* line_of(std::size_t index) const { return &bytes[index]; }
  // release: the program's last accesses precede the next owner's; the batch's fence does the rest.
  void mark_free(std::size_t index) {
    if (bytes[index].load(std::memory_order_relaxed) == free_mark) die("double free");
    bytes[index].store(free_mark, std::memory_order_release);
  }
  bool looks_empty(std::size_t) {
    const std::size_t at = sentinel.load(std::memory_order_relaxed);
    return bytes[at].load(std::memory_order_relaxed) == free_mark && move_sentinel(at);
  }
  bool all_free() const {
    for (std::size_t group = 0; group < capacity; group += 16)
      if (free_in(group) != 0xffffU) return false;
    return true;
  }
  bool any_free() const {
    for (std::size_t group = 0; group < capacity; group += 16)
      if (free_in(group) != 0) return true;
    return false;
  }
  std::size_t take(char* begin, void** out, std::size_t want) {
    std::size_t got = 0;
    for (std::size_t group = 0; group < capacity && got < want; group += 16) {
      for (unsigned found = free_in(group); found != 0 && got < want; found &= found - 1) {
        const std::size_t index = group + static_cast<std::size_t>(std::countr_zero(found));
        bytes[index].store(0, std::memory_order_relaxed);
        out[got++] = begin + index * object_bytes;
      }
    }
    return got;
  }

 private:
  // Looks for an object that is out, from the old sentinel on; true if there is none.
  bool move_sentinel(std::size_t from) {
    for (std::size_t step = 0; step <= capacity; step += 16) {
      const std::size_t group = ((from & ~std::size_t{15}) + step) % capacity;
      const unsigned out = ~free_in(group) & 0xffffU;
      if (out == 0) continue;
      const std::size_t index = group + static_cast<std::size_t>(std::countr_zero(out));
      sentinel.store(static_cast<std::uint16_t>(index), std::memory_order_relaxed);
      return false;
    }
    return true;
  }
  // 16 objects at once, one bit each. Acquire: pairs with mark_free.
  unsigned free_in(std::size_t group) const {
#if defined(__SSE2__)
    // Loads of aligned 16 bytes are acquire loads of each byte on x86; the barrier is for the compiler.
    const auto* at = reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(bytes.data()) + group);
    const __m128i equal = _mm_cmpeq_epi8(_mm_load_si128(at), _mm_set1_epi8(-1));
    std::atomic_signal_fence(std::memory_order_acq_rel);
    return static_cast<unsigned>(_mm_movemask_epi8(equal));
#else
    unsigned result = 0;
    for (std::size_t index = 0; index < 16; ++index) {
      const bool is_free = bytes[group + index].load(std::memory_order_acquire) == free_mark;
      result |= static_cast<unsigned>(is_free) << index;
    }
    return result;
#endif
  }
};

}  // namespace experiment
