// SPDX-License-Identifier: MIT
// call_site: a call path that allocates, and what its samples stand for. Plain data of the same layout in every build of a version:
// a reader of a core file reads it as it lies in the process (core_root.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn {

// What the samples of a site stand for.
struct site_figures {
  static constexpr unsigned lifetime_classes = 48;
  static constexpr double weight_unit = 4096;  // 2^byte_samples::weight_shift

  // Blocks in units of 2^-byte_samples::weight_shift.
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t live_samples = 0;
  // Of `blocks` (blocks, not units), `bytes` and `live_bytes`: the sums of w (w - 1), for bytes times the squared size, over the
  // samples, w being what one stands for. Their expected values are the variances (Horvitz and Thompson).
  double blocks_variance = 0;
  double bytes_variance = 0;
  double live_bytes_variance = 0;
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
    const double weight_of_one = static_cast<double>(weight) / weight_unit;
    blocks_variance += weight_of_one * (weight_of_one - 1);
    bytes_variance += variance_of(weight, weighted_bytes);
    live_bytes_variance += variance_of(weight, weighted_bytes);
  }
  void note_freed(std::uint64_t weight, std::uint64_t weighted_bytes, std::uint64_t lifetime_ns);

  // Of the bytes that one sample stands for.
  static double variance_of(std::uint64_t weight, std::uint64_t weighted_bytes) {
    const auto bytes = static_cast<double>(weighted_bytes);
    return bytes * bytes * (1 - weight_unit / static_cast<double>(weight));
  }
};

struct call_site {
  static constexpr std::size_t most = 8192;
  static constexpr std::size_t most_frames = 64;

  site_figures figures;
  std::uint64_t hash = 0;
  std::uint32_t number = 0;  // from 1 in the order of their first samples; 0: the site of other paths
  std::uint32_t count = 0;   // frames
  // Where the figures lie in the black box of this epoch (black_box.hpp).
  std::uint32_t box_at = 0;
  std::uint32_t box_epoch = 0;
  // Return addresses, innermost first; without the allocator's own.
  const std::uintptr_t* frames = nullptr;
};

}  // namespace tarn
