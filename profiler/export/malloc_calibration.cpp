// SPDX-License-Identifier: MIT
#include "profiler/export/malloc_calibration.hpp"

#include <cmath>

namespace tarn::profiler {

namespace {

// So unlikely is it that sides of one factor get different ones: 1 %.
constexpr double least_standard_errors = 2.58;

double small_of(const malloc_time& times) { return times.small_ns > 0 ? times.small_ns : times.ns; }

}  // namespace

bool has_small_calls(const site_figures& figures) noexcept {
  return figures.allocations <= 0 || figures.large < figures.allocations;
}

void malloc_calibration::add(std::size_t side, const malloc_time& times) {
  if (times.factor <= 0) return;
  const double error_ns = times.clock_error * times.ns;
  sides_[side].found_ns += small_of(times);
  sides_[side].timed_ns += small_of(times) / times.factor;
  sides_[side].clock_variance += error_ns * error_ns;
}

bool malloc_calibration::differ() const {
  if (sides_[0].timed_ns <= 0 || sides_[1].timed_ns <= 0) return true;
  const double error = std::sqrt(sides_[0].variance() + sides_[1].variance());
  return std::abs(sides_[0].factor() - sides_[1].factor()) > least_standard_errors * error;
}

double malloc_calibration::factor_of(std::size_t side) const {
  if (differ()) return sides_[side].factor();
  return (sides_[0].found_ns + sides_[1].found_ns) / (sides_[0].timed_ns + sides_[1].timed_ns);
}

void malloc_calibration::apply(std::size_t side, profile& p) const {
  if (sides_[side].timed_ns <= 0 || p.malloc_time.factor <= 0) return;
  const double change = factor_of(side) / p.malloc_time.factor;
  for (site& each : p.sites) {
    if (!has_small_calls(each.figures)) continue;
    each.figures.malloc_ns *= change;
    each.figures.malloc_variance *= change * change;
  }
  p.malloc_time.factor *= change;
  p.malloc_time.clock_part = 0;
  // An error of a common factor is the same on both sides.
  if (!differ()) p.malloc_time.clock_error = 0;
}

}  // namespace tarn::profiler
