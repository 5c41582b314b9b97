// SPDX-License-Identifier: MIT
// cost_chart: the true total of every way to get a buffer as a bar chart, split into the part that a timer sees and
// the part that it does not. The result is one self-contained file: an SVG picture, or a page with the picture and
// the table. Pure functions of the outcome; any thread.
#pragma once

#include <string>
#include <vector>

#include "cli/cost/cost_experiment.hpp"

namespace tarn::cli {

std::string render_cost_svg(const cost_outcome& outcome);
// `notes`: paragraphs below the table, as plain text.
std::string render_cost_html(const cost_outcome& outcome, const std::vector<std::string>& notes);

}  // namespace tarn::cli
