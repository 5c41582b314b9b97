// SPDX-License-Identifier: MIT
#include "cli/compare/statistics.hpp"
#include "profiler/format/quantity.hpp"

#include <algorithm>
#include <cmath>

namespace tarn::cli {

namespace {

// Probabilities of each value of the signed-rank sum of `count` differences around zero.
std::vector<double> signed_rank_distribution(std::size_t count) {
  std::vector<double> probability(count * (count + 1) / 2 + 1);
  probability[0] = 1;
  std::size_t largest = 0;
  for (std::size_t rank = 1; rank <= count; ++rank) {
    largest += rank;
    // Each rank is counted or not, with even chances.
    for (std::size_t sum = largest + 1; sum-- > 0;) {
      const double counted = sum >= rank ? probability[sum - rank] : 0;
      probability[sum] = 0.5 * probability[sum] + 0.5 * counted;
    }
  }
  return probability;
}

std::vector<double> logarithms_of_ratios(const std::vector<double>& subject,
                                         const std::vector<double>& reference) {
  std::vector<double> logarithms;
  const std::size_t rounds = std::min(subject.size(), reference.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    if (subject[round] <= 0 || reference[round] <= 0) return {};
    logarithms.push_back(std::log(subject[round] / reference[round]));
  }
  return logarithms;
}

}  // namespace

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

double half_quartile_range(const std::vector<double>& values) {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / 2;
}

std::optional<location_interval> signed_rank_interval(const std::vector<double>& differences,
                                                      double confidence) {
  if (differences.empty() || differences.size() > most_rounds) return std::nullopt;
  const std::vector<double> probability = signed_rank_distribution(differences.size());
  const double tail = (1 - confidence) / 2;
  std::size_t outside = 0;  // number of smallest means, and of largest means, outside of the interval
  double outside_probability = 0;
  while (outside_probability + probability[outside] <= tail) {
    outside_probability += probability[outside];
    ++outside;
  }
  if (outside == 0) return std::nullopt;
  std::vector<double> means;
  for (std::size_t i = 0; i < differences.size(); ++i) {
    for (std::size_t j = i; j < differences.size(); ++j)
      means.push_back((differences[i] + differences[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  location_interval interval;
  interval.low = means[outside - 1];
  interval.high = means[means.size() - outside];
  interval.confidence = 1 - 2 * outside_probability;
  return interval;
}

bool completely_separated(const std::vector<double>& left, const std::vector<double>& right) {
  const auto [left_low, left_high] = std::minmax_element(left.begin(), left.end());
  const auto [right_low, right_high] = std::minmax_element(right.begin(), right.end());
  return *left_high < *right_low || *right_high < *left_low;
}

judgement judge(const std::vector<double>& subject, const std::vector<double>& reference,
                double ratio_of_medians, double confidence, double smallest) {
  judgement result;
  const std::vector<double> logarithms = logarithms_of_ratios(subject, reference);
  if (logarithms.empty() || ratio_of_medians <= 0 || !std::isfinite(ratio_of_medians)) return result;
  result.ratio = ratio_of_medians;
  const auto interval = signed_rank_interval(logarithms, confidence);
  const auto [lowest, highest] = std::minmax_element(logarithms.begin(), logarithms.end());
  result.low = std::min(result.ratio, std::exp(interval ? interval->low : *lowest));
  result.high = std::max(result.ratio, std::exp(interval ? interval->high : *highest));
  const double distance = std::abs(result.ratio - 1);
  bool differs = false;
  if (interval) {
    result.confidence = interval->confidence;
    differs = (result.low > 1 || result.high < 1) && distance >= smallest;
  } else {
    differs = logarithms.size() >= fewest_judged_rounds && completely_separated(subject, reference) &&
              distance >= std::max(smallest, few_rounds_smallest);
  }
  if (differs) result.outcome = result.ratio < 1 ? difference::less : difference::more;
  return result;
}

profiler::quantity show_seconds(double seconds) {
  profiler::quantity said = profiler::spelled(profiler::base_unit::ns, 1e9 * seconds, 4);
  said.value *= 1e-9;
  return said;
}
profiler::quantity show_bytes(double bytes) {
  return profiler::spelled(profiler::base_unit::bytes, bytes, 4);
}
profiler::quantity show_count(double count) {
  return profiler::spelled(profiler::base_unit::count, count, 4);
}

}  // namespace tarn::cli
