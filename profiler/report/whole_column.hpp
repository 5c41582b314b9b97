// SPDX-License-Identifier: MIT
// whole_column: rounds real figures to whole numbers whose sum is the rounded sum of the figures. Rounded
// independently, thousands of rows would miss their total by thousands. Invariant: sum of the values == round(sum
// of what was added); each value differs by at most 1 from its figure.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace tarn::profiler {

// Invalid figures (negative, NaN, or beyond what a page's numbers hold exactly) count as 0.
inline double sane_figure(double value) noexcept { return value > 0 && value < 9e15 ? value : 0; }

class whole_column {
 public:
  void add(double value) {
    exact_ += sane_figure(value);
    const std::int64_t until_now = std::llround(exact_);
    values_.push_back(until_now - total_);
    total_ = until_now;
  }

  const std::vector<std::int64_t>& values() const noexcept { return values_; }
  std::int64_t total() const noexcept { return total_; }

 private:
  double exact_ = 0;
  std::int64_t total_ = 0;
  std::vector<std::int64_t> values_;
};

}  // namespace tarn::profiler
