// SPDX-License-Identifier: MIT
// fault_parts: sampled blocks share pages, and each has a part of its page's faults. From these parts follows an
// estimate of how all page faults on small blocks divide among the sites.
//
// A ratio estimator (Cochran, Sampling Techniques, chapter 6): the total number of faults is known, so only the
// sites' shares depend on the sample. A value type.
#pragma once

#include <algorithm>

#include "profiler/collect/call_times.hpp"
#include "profiler/model/profile.hpp"

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

inline estimate fault_parts::of_site(const fault_parts& mine, double faults,
                                     double per_sample) const noexcept {
  const double share = sum > 0 ? mine.sum / sum : 0;
  const double each = sum > 0 ? faults / sum : 0;
  // At most this many of the parts are independent information about the faults.
  const double telling = std::min(count, std::max(1.0, faults / per_sample));
  const double repeated = telling > 0 ? count / telling : 1;
  const double one_more = faults / (telling + 1);
  const double seen = (1 - share) * (1 - share) * mine.squares + share * share * (squares - mine.squares);
  const double variance = repeated * each * each * seen + one_more * one_more;
  // A site's faults lie between 0 and all of them, so the interval need not be wider than that.
  const double widest = std::max(share, 1 - share) * faults / margin_in_errors;
  return {share * faults, std::min(variance, widest * widest)};
}

}  // namespace tarn::profiler
