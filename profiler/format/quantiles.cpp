// SPDX-License-Identifier: MIT
#include "profiler/format/quantiles.hpp"

#include <cmath>
#include <numbers>

namespace tarn::profiler {

namespace {

// The probability that the absolute value of t is below `bound`: a finite sum, as the degrees of freedom are whole.
double student_within(double bound, std::size_t degrees) {
  const double angle = std::atan(bound / std::sqrt(static_cast<double>(degrees)));
  const double square = std::cos(angle) * std::cos(angle);
  const bool is_odd = degrees % 2 != 0;
  double term = is_odd ? std::cos(angle) : 1;
  double sum = 0;
  for (std::size_t index = 1; index <= degrees / 2; ++index) {
    sum += term;
    const auto twice = static_cast<double>(2 * index);
    term *= square * (is_odd ? twice / (twice + 1) : (twice - 1) / twice);
  }
  const double within = std::sin(angle) * sum;
  return is_odd ? 2 / std::numbers::pi * (angle + within) : within;
}

// The bound at which `within`, which increases from 0 to 1, reaches the probability.
template <class Within>
double bound_of(double probability, const Within& within) {
  double low = 0, high = 1;
  while (within(high) < probability && high < 1e12) high *= 2;
  for (int step = 0; step < 80; ++step) {
    const double middle = (low + high) / 2;
    (within(middle) < probability ? low : high) = middle;
  }
  return high;
}

}  // namespace

double student_bound(std::size_t degrees, double probability) {
  return bound_of(probability, [degrees](double bound) { return student_within(bound, degrees); });
}

// With n recordings a side the difference of the means has the standard error sqrt(2 / n) * error; it falls short of its
// expectation by one_sided of these in one of ten cases.
std::size_t recordings_to_find(double amount, double error, double confidence) {
  if (amount <= 0) return 0;
  const double one_sided = normal_bound(2 * small_change_found - 1);
  const auto is_enough = [&](std::size_t count) {
    const double bound = student_bound(2 * count - 2, confidence) + one_sided;
    return bound * error * std::sqrt(2 / static_cast<double>(count)) <= amount;
  };
  if (!is_enough(most_recordings)) return 0;
  std::size_t too_few = 1, enough = most_recordings;
  while (enough - too_few > 1) {
    const std::size_t middle = (too_few + enough) / 2;
    (is_enough(middle) ? enough : too_few) = middle;
  }
  return enough;
}

double normal_bound(double probability) {
  return bound_of(probability, [](double bound) { return std::erf(bound / std::numbers::sqrt2); });
}

}  // namespace tarn::profiler
