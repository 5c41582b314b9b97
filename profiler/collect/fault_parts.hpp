// SPDX-License-Identifier: MIT
// fault_parts: the parts that sampled blocks have in the page faults of the memory which they share, and what they tell of
// how all those faults divide among the sites.
//
// A ratio estimator (Cochran, Sampling Techniques, chapter 6): how many faults there are in all is known, so only the
// sites' shares depend on the sample. A value type.
#pragma once

#include "profiler/collect/call_times.hpp"

namespace tarn::profiler {

struct fault_parts {
  double count = 0;
  double sum = 0;
  double squares = 0;

  void add(double part) noexcept {
    count += 1;
    sum += part;
    squares += part * part;
  }
  void add(const fault_parts& more) noexcept {
    count += more.count;
    sum += more.sum;
    squares += more.squares;
  }

  // Of all sites' parts: how many of all `faults` are of the site that has `mine`. A block is sampled for so many fresh
  // pages: `per_sample`. Pages that are used again show more parts than that, which tell nothing more of the faults.
  estimate of_site(const fault_parts& mine, double faults, double per_sample) const noexcept;
};

}  // namespace tarn::profiler
