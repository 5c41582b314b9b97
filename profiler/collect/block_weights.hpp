// SPDX-License-Identifier: MIT
// block_weights: how many blocks a recorded block stands for. In mode full, and if it is large, for itself.
//
// A sampled block stands for 1/p blocks of its size, where p is the probability of being sampled (Horvitz and
// Thompson 1952). Blocks are sampled independently, so the variance of a sum over blocks is the sum of y^2 (1 - p)
// / p^2 over its terms y. Not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "profiler/collect/block_table.hpp"
#include "profiler/collect/model_events.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

class block_weights {
 public:
  explicit block_weights(const model_settings& settings)
      : full_(settings.full),
        sample_bytes_(settings.sample_bytes),
        fewest_halvings_(settings.first_halvings) {}

  double of(std::uint64_t size, std::uint64_t halvings) const {
    if (full_ || size >= large_block_bytes) return 1;
    const double distance = std::ldexp(sample_bytes_, -static_cast<int>(halvings));
    return 1 / -std::expm1(-static_cast<double>(countdown_of(size)) / distance);
  }
  double of(const living_block& block) const { return of(block.size, block.halvings); }
  // The number of calls that a timed call for the block stands for.
  double of_calls(const living_block& block) const {
    if (!full_) return of(block);
    return block.size >= large_block_bytes ? 1 : full_timed_every;
  }
  // A sampled block has come with this number.
  void see(std::uint64_t halvings) { fewest_halvings_ = std::min(fewest_halvings_, halvings); }
  void see(const block_weights& child) { see(child.fewest_halvings_); }
  // The mean distance of samples by now: the largest of any sample.
  double distance() const noexcept { return std::ldexp(sample_bytes_, -static_cast<int>(fewest_halvings_)); }

 private:
  bool full_;
  double sample_bytes_;
  std::uint64_t fewest_halvings_;
};

}  // namespace tarn::profiler
