// SPDX-License-Identifier: MIT
// statistics: medians, spreads, and whether contenders differ: from given rounds by methods that a single disturbed run does
// not mislead (docs/reference/commands.md), and from as few rounds as possible by a model of the rounds
// (docs/explanation/advice.md). Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/show/cli_error.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

// Values must not be empty. Quantiles interpolate between neighbours (type 7).
double median(const std::vector<double>& values);
double quantile(std::vector<double> values, double fraction);
// Half the distance between the quartiles.
double half_quartile_range(const std::vector<double>& values);

struct location_interval {
  double low = 0;
  double high = 0;
  double confidence = 0;  // attained confidence, at least the requested one
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
  double ratio = 1;  // median of the subject / median of the reference
  double low = 1;    // interval around the ratio, from the ratios of the single rounds
  double high = 1;
  double confidence = 0;  // 0: decided by complete separation, as there are few rounds
};

// With enough rounds for an interval at `confidence`, the interval decides; with fewer, complete separation does.
// The reported difference is the given ratio of the medians, which a report has rounded, so that the report's
// figures agree with each other; an interval that does not contain it is widened to it. Differences below
// `smallest` (0.01 = 1 %) never count: the linker's layout of a library alone causes as much. Both sides hold one
// value per round, in the same order.
judgement judge(const std::vector<double>& subject, const std::vector<double>& reference,
                double ratio_of_medians, double confidence, double smallest);

// A way's figure relative to that of the first way, the reference.
struct block_estimate {
  double ratio = 1;
  double low = 1;
  double high = 1;
  bool has_interval = false;  // false: too few values; low and high are the ratio
};

// The analysis of a randomized block design: the logarithm of a value is the sum of what its way and what its round
// contribute, and noise whose size all ways share. `ways`: a way's values of the first rounds, in which it took part; the
// reference takes part in all rounds that count. Each bound is wrong with the probability `error`. Ways without values, or
// with a value that is not above 0, get no estimate.
std::vector<block_estimate> estimate_blocks(const std::vector<std::vector<double>>& ways, double error);

// A figure of repeated runs, with the four digits that these support. Ratios beside it are computed from the rounded
// number, quantity::value, which is in the unit of the argument.
profiler::quantity show_seconds(double seconds);
profiler::quantity show_bytes(double bytes);
profiler::quantity show_count(double count);

// With few rounds, complete separation counts only from this difference on.
inline constexpr double few_rounds_smallest = 0.03;
// With fewer rounds nothing is decided, however far apart the values are.
inline constexpr std::size_t fewest_judged_rounds = 3;
inline constexpr int most_rounds = 200;

// figures: structures of numbers that a child process reports as one JSON object, and their values over all rounds.
// Pure functions; any thread.

template <class Figures>
struct named_figure {
  const char* key;
  double Figures::*value;
};

template <class Figures, class Names>
nlohmann::json figures_as_json(const Figures& figures, const Names& names) {
  nlohmann::json object;
  for (const named_figure<Figures>& one : names) object[one.key] = figures.*one.value;
  return object;
}

// Throws cli_error (refused) if `text` is not a JSON object with all of the numbers.
template <class Figures, class Names>
Figures figures_from(const std::string& text, const Names& names) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  Figures figures;
  for (const named_figure<Figures>& one : names) {
    if (!object.is_object() || !object.contains(one.key) || !object[one.key].is_number())
      throw cli_error(exit_code::refused, "the measuring process gave a damaged answer");
    figures.*one.value = object[one.key].template get<double>();
  }
  return figures;
}

template <class Figures>
std::vector<double> values_of(const std::vector<Figures>& rounds, double Figures::*value) {
  std::vector<double> values;
  for (const Figures& round : rounds) values.push_back(round.*value);
  return values;
}

// Requires: there is a value.
inline nlohmann::json summary_of(const std::vector<double>& values) {
  return {{"median", median(values)},
          {"lowest", *std::min_element(values.begin(), values.end())},
          {"highest", *std::max_element(values.begin(), values.end())},
          {"runs", values}};
}

}  // namespace tarn::cli
