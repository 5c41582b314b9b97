// SPDX-License-Identifier: MIT
// call_site: a call path that allocates, and what its samples stand for. Plain data; in a black box (box_format.hpp) it is
// also part of a file's format.
#pragma once

#include <cstdint>

namespace tarn {

// What the samples of a site stand for.
struct site_figures {
  static constexpr unsigned lifetime_classes = 48;

  // Blocks in units of 2^-byte_samples::weight_shift.
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t live_samples = 0;
  // Of the freed blocks: the sum of their lifetimes, and the number of samples whose lifetime in nanoseconds has k bits.
  double lifetime_seconds = 0;
  std::uint32_t lifetimes[lifetime_classes] = {};

  void note_allocated(std::uint64_t weight, std::uint64_t weighted_bytes) {
    blocks += weight;
    bytes += weighted_bytes;
    live_blocks += weight;
    live_bytes += weighted_bytes;
    ++samples;
    ++live_samples;
  }
  void note_freed(std::uint64_t weight, std::uint64_t weighted_bytes, std::uint64_t lifetime_ns);
};

struct call_site {
  site_figures figures;
  std::uint64_t hash = 0;
  std::uint32_t number = 0;  // from 1 in the order of their first samples; 0: the site of other paths
  std::uint32_t count = 0;   // frames
  // Return addresses, innermost first; without the allocator's own.
  const std::uintptr_t* frames = nullptr;
};

}  // namespace tarn
