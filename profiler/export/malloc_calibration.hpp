// SPDX-License-Identifier: MIT
// malloc_calibration: makes the times in malloc of several recordings comparable.
//
// In each recording the times of timed calls were multiplied by a factor so that their sum agrees with the samples of
// the clock (profiler/collect/time_total.hpp). These are few, so the factor varies by chance from recording to
// recording, much more than the timed calls do, whose error is the same in all recordings of a program. So recordings
// that are compared get one factor, from the samples of all of them. Where the samples show that the timed calls are
// wrong by different amounts on both sides (another malloc, another behaviour of the caches), each side gets its own.
//
// Not thread-safe.
#pragma once

#include <cstddef>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Whether a site has calls for blocks below 64 KiB: the times of the others are not multiplied.
bool has_small_calls(const site_figures& figures) noexcept;

class malloc_calibration {
 public:
  // `side`: 0 or 1.
  void add(std::size_t side, const malloc_time& times);
  // Requires that the recording was added. Changes the times of its sites.
  void apply(std::size_t side, profile& p) const;
  // Whether the sides have a factor each.
  bool differ() const;

 private:
  // Sums over the recordings of a side, of calls for small blocks.
  struct sums {
    double timed_ns = 0;
    double found_ns = 0;  // timed_ns, each multiplied by its factor
    double clock_variance = 0;
    double factor() const noexcept { return found_ns / timed_ns; }
    double variance() const noexcept { return clock_variance / (timed_ns * timed_ns); }
  };
  double factor_of(std::size_t side) const;

  sums sides_[2];
};

}  // namespace tarn::profiler
