// SPDX-License-Identifier: MIT
// tail_report: the table and the JSON of `tarn compare --tail`. Pure functions of the outcome; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/compare/comparison.hpp"

namespace tarn::cli {

// Of the counter with which the calls were timed.
struct tick_length {
  double ns = 1;
  double step_ns = 1;  // it advances by at least so much
};

// Rows for each function and size that the program called: one for each contender, and one for its calls that took page faults.
// Below, what the figures mean. `terminal`: its columns; 0: any number.
std::string render_tails(const comparison_outcome& outcome, const tick_length& tick, bool colour,
                         std::size_t terminal = 0);
// As as_json(), with the tails in place of the metrics and the verdicts.
nlohmann::json tails_as_json(const comparison_outcome& outcome, const tick_length& tick);

}  // namespace tarn::cli
