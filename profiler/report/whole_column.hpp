// SPDX-License-Identifier: MIT
// whole_column: real figures as whole numbers whose sum is the sum of the figures, rounded once. Rounded one by one,
// thousands of rows would miss their total by thousands.
// Invariant: sum of the values == round(sum of what was added); each value is within 1 of what it stands for.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace tarn::profiler {

// What cannot be a figure (negative, not a number, beyond what a page's numbers hold exactly) counts as none.
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
