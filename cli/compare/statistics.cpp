// SPDX-License-Identifier: MIT
#include "cli/compare/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "profiler/export/difference.hpp"

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

// Repeated runs of one program never agree better than this; a few that happen to agree do not show that they would.
constexpr double least_spread = 0.005;
constexpr double most_margin = 20;  // of a logarithm: keeps the bounds finite

using matrix = std::vector<std::vector<double>>;

// Of a positive definite matrix (Gauss and Jordan, without exchanges of rows).
matrix inverse_of(matrix left) {
  const std::size_t size = left.size();
  matrix right(size, std::vector<double>(size));
  for (std::size_t row = 0; row < size; ++row) right[row][row] = 1;
  for (std::size_t pivot = 0; pivot < size; ++pivot) {
    const double divisor = left[pivot][pivot];
    for (std::size_t column = 0; column < size; ++column) {
      left[pivot][column] /= divisor;
      right[pivot][column] /= divisor;
    }
    for (std::size_t row = 0; row < size; ++row) {
      const double factor = left[row][pivot];
      if (row == pivot || factor == 0) continue;
      for (std::size_t column = 0; column < size; ++column) {
        left[row][column] -= factor * left[pivot][column];
        right[row][column] -= factor * right[pivot][column];
      }
    }
  }
  return right;
}

// The least-squares estimates of the ways' effects, relative to the reference: the normal equations of incomplete blocks
// (Montgomery, Design and Analysis of Experiments, chapter 4).
class block_design {
 public:
  // By way, the reference first; no way is empty.
  explicit block_design(const matrix& logarithms)
      : equations_(logarithms.size() - 1, std::vector<double>(logarithms.size() - 1)),
        sums_(logarithms.size() - 1) {
    const std::size_t rounds = logarithms.front().size();
    for (std::size_t round = 0; round < rounds; ++round) add_round(logarithms, round);
    inverse_ = inverse_of(equations_);
    freedom_ -= static_cast<double>(rounds + logarithms.size() - 1);
    for (std::size_t way = 0; way < sums_.size(); ++way) squares_ -= effect_of(way) * sums_[way];
  }

  double effect_of(std::size_t way) const {  // counted without the reference
    return std::inner_product(sums_.begin(), sums_.end(), inverse_[way].begin(), 0.0);
  }
  // Half the width of the interval; 0: there are too few values for one.
  double margin_of(std::size_t way, double error) const {
    if (freedom_ < 1) return 0;
    const double spread = std::max(least_spread, std::sqrt(std::max(0.0, squares_) / freedom_));
    const double bound = profiler::student_bound(static_cast<std::size_t>(freedom_), 1 - 2 * error);
    return std::min(most_margin, bound * spread * std::sqrt(inverse_[way][way]));
  }

 private:
  void add_round(const matrix& logarithms, std::size_t round) {
    std::vector<std::size_t> members;
    double mean = 0;
    for (std::size_t way = 0; way < logarithms.size(); ++way) {
      if (logarithms[way].size() <= round) continue;
      members.push_back(way);
      mean += logarithms[way][round];
    }
    const auto count = static_cast<double>(members.size());
    mean /= count;
    freedom_ += count;
    for (const std::size_t way : members) {
      const double deviation = logarithms[way][round] - mean;
      squares_ += deviation * deviation;
      if (way == 0) continue;
      sums_[way - 1] += deviation;
      equations_[way - 1][way - 1] += 1;
      for (const std::size_t other : members) {
        if (other != 0) equations_[way - 1][other - 1] -= 1 / count;
      }
    }
  }

  matrix equations_;
  matrix inverse_;
  std::vector<double> sums_;
  double squares_ = 0;  // of the residuals
  double freedom_ = 0;  // degrees of freedom of the residuals
};

// None if a value is not above 0.
std::vector<double> logarithms_of(const std::vector<double>& values, std::size_t most) {
  std::vector<double> logarithms;
  for (std::size_t index = 0; index < std::min(most, values.size()); ++index) {
    if (values[index] <= 0) return {};
    logarithms.push_back(std::log(values[index]));
  }
  return logarithms;
}

}  // namespace

std::vector<block_estimate> estimate_blocks(const std::vector<std::vector<double>>& ways, double error) {
  std::vector<block_estimate> estimates(ways.size());
  matrix measured;
  std::vector<std::size_t> indices;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    std::vector<double> logarithms = logarithms_of(ways[way], ways.front().size());
    if (logarithms.empty() && way == 0) return estimates;
    if (logarithms.empty()) continue;
    measured.push_back(std::move(logarithms));
    indices.push_back(way);
  }
  const block_design design(measured);
  for (std::size_t index = 1; index < indices.size(); ++index) {
    const double effect = design.effect_of(index - 1);
    const double margin = design.margin_of(index - 1, error);
    estimates[indices[index]] = {std::exp(effect), std::exp(effect - margin), std::exp(effect + margin),
                                 margin > 0};
  }
  return estimates;
}

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
  return location_interval{.low = means[outside - 1],
                           .high = means[means.size() - outside],
                           .confidence = 1 - 2 * outside_probability};
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
