// SPDX-License-Identifier: MIT
// fault_parts: sampled blocks share pages, and each has a part of its page's faults. From these parts follows an
// estimate of how all page faults on small blocks divide among the sites.
//
// A ratio estimator (Cochran, Sampling Techniques, chapter 6): the total number of faults is known, so only the
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

  // Called on the sum of all sites' parts: how many of all `faults` belong to the site whose parts are `mine`.
  // `per_sample`: fresh pages per sampled block. Pages that are used again give more parts than that, which add no
  // information about the faults.
  estimate of_site(const fault_parts& mine, double faults, double per_sample) const noexcept;
};

}  // namespace tarn::profiler
