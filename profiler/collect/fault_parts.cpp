// SPDX-License-Identifier: MIT
#include "profiler/collect/fault_parts.hpp"

#include <algorithm>

namespace tarn::profiler {

namespace {

constexpr double standard_errors = 1.96;  // half the width of a 95 % interval

}  // namespace

estimate fault_parts::of_site(const fault_parts& mine, double faults, double per_sample) const noexcept {
  const double share = sum > 0 ? mine.sum / sum : 0;
  const double each = sum > 0 ? faults / sum : 0;
  // At most this many of the parts are independent information about the faults.
  const double telling = std::min(count, std::max(1.0, faults / per_sample));
  const double repeated = telling > 0 ? count / telling : 1;
  const double one_more = faults / (telling + 1);
  const double seen = (1 - share) * (1 - share) * mine.squares + share * share * (squares - mine.squares);
  const double variance = repeated * each * each * seen + one_more * one_more;
  // A site's faults lie between 0 and all of them, so the interval need not be wider than that.
  const double widest = std::max(share, 1 - share) * faults / standard_errors;
  return {share * faults, std::min(variance, widest * widest)};
}

}  // namespace tarn::profiler
