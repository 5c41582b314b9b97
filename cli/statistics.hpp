// SPDX-License-Identifier: MIT
// statistics: medians, spreads, and whether two contenders differ. Robust methods only: a single
// disturbed run must not decide anything. docs/commands.md explains the method to users.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tarn::cli {

// Values must not be empty. Quantiles interpolate between neighbours (type 7).
double median(const std::vector<double>& values);
double quantile(std::vector<double> values, double fraction);
// Half the distance between the quartiles.
double half_quartile_range(const std::vector<double>& values);

struct location_interval {
  double low = 0;
  double high = 0;
  double confidence = 0;  // attained, at least what was asked for
};

// The Wilcoxon signed-rank interval (exact) for the centre of `differences`; nullopt when there are
// too few to reach the confidence, for instance fewer than 6 for 0.95.
std::optional<location_interval> signed_rank_interval(const std::vector<double>& differences,
                                                      double confidence);

// Every value of one side lies below every value of the other.
bool completely_separated(const std::vector<double>& left, const std::vector<double>& right);

enum class difference { none, less, more };

struct judgement {
  difference outcome = difference::none;
  double ratio = 1;  // of the medians, subject to reference
  double low = 1;    // an interval around it, from the ratios of each round
  double high = 1;
  double confidence = 0;  // 0 when decided by complete separation, for few rounds
};

// Rounds that allow an interval at `confidence` judge by it; fewer judge by complete separation. What
// is told of a difference is the ratio of the medians, which is given: a report has rounded them, and its
// figures must agree with each other. An interval that leaves it out is widened to it.
// Differences below `smallest` (0.01 = 1 %) are never called one: how the linker happens to lay
// a library out makes as much. Both sides hold one value per round, in the same order.
judgement judge(const std::vector<double>& subject, const std::vector<double>& reference,
                double ratio_of_medians, double confidence, double smallest);

// With few rounds, complete separation counts only from this difference on.
inline constexpr double few_rounds_smallest = 0.03;
// Fewer show nothing, however far apart they are.
inline constexpr std::size_t fewest_judged_rounds = 3;
inline constexpr int most_rounds = 200;

}  // namespace tarn::cli
