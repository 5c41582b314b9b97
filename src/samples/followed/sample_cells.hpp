// SPDX-License-Identifier: MIT
// sample_cells: the bits of a span that small sampled blocks of all sizes share. It is divided into cells; a block takes
// a run of them, aligned as an object of its class would be. So a sampled block takes no page for itself.
//
// Owner: heap_samples, whose lock guards it, and whose validate_locked() checks the invariant: free_cells is the number of
// bits that are clear in `taken`, and the sum of the cells of the blocks in `first` is the number of bits set.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "pages/span.hpp"

namespace tarn {

struct live_sample;

struct sample_cells {
  static constexpr std::size_t cell_bytes = 64;
  static constexpr std::size_t span_pages = 4;
  static constexpr std::size_t count = (span_pages << page_shift) / cell_bytes;
  static constexpr std::size_t none = ~std::size_t{0};
  // Larger blocks get spans of their own.
  static constexpr std::size_t largest_block = 2 * kib;

  static constexpr std::size_t cells_for(std::size_t bytes) { return (bytes + cell_bytes - 1) / cell_bytes; }

  span* memory = nullptr;
  sample_cells* next = nullptr;  // of those with room
  sample_cells* previous = nullptr;
  bool is_listed = false;
  std::size_t free_cells = count;
  std::uint64_t taken[count / 64] = {};
  live_sample* first[count] = {};  // of the block that begins in the cell

  [[nodiscard]] bool is_taken(std::size_t cell) const { return (taken[cell / 64] >> (cell % 64) & 1U) != 0; }

  // Takes the first run of `cells` free cells at a multiple of `step` cells; its first cell, or `none`.
  std::size_t take(std::size_t cells, std::size_t step) {
    if (cells > free_cells) return none;
    for (std::size_t at = 0; at + cells <= count; at += step) {
      std::size_t length = 0;
      while (length < cells && !is_taken(at + length)) ++length;
      if (length != cells) continue;
      for (std::size_t i = at; i < at + cells; ++i) taken[i / 64] |= std::uint64_t{1} << (i % 64);
      free_cells -= cells;
      return at;
    }
    return none;
  }
  void give_back(std::size_t at, std::size_t cells) {
    for (std::size_t i = at; i < at + cells; ++i) taken[i / 64] &= ~(std::uint64_t{1} << (i % 64));
    free_cells += cells;
  }
  [[nodiscard]] std::size_t bits_set() const {
    std::size_t bits = 0;
    for (const std::uint64_t word : taken) bits += static_cast<std::size_t>(std::popcount(word));
    return bits;
  }
};

}  // namespace tarn
