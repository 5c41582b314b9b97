// SPDX-License-Identifier: MIT
// figures: structures of numbers that a child process reports as one JSON object, and their values over all rounds.
// Pure functions; any thread.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/compare/statistics.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {

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
