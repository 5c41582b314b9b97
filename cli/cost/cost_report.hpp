// SPDX-License-Identifier: MIT
// cost_report: the table, the sentences and the JSON of the cost of large buffers. Pure functions of the outcome;
// any thread. docs/explanation/cost.md explains the columns to users.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/cost/cost_experiment.hpp"

namespace tarn::cli {

// One way at one size: medians over the rounds.
// The true total is what a cycle takes more than the two writes alone take on a recycled buffer:
//   allocate + first write + second write + free - (first + second write of the recycled one).
// Below zero where writing is faster than there, for example on huge pages.
struct cost_row {
  const cost_result* result = nullptr;
  const buffer_way* way = nullptr;
  cost_figures middle;
  double timed_seconds = 0;  // what a timer around allocating and freeing sees
  double total_seconds = 0;
  double lowest_total = 0;
  double highest_total = 0;
  bool is_reference = false;
  // Share of the true total that a timer sees; none for the reference, or if the total is too small to divide by.
  std::optional<double> seen_share;

  double size_mib() const { return static_cast<double>(result->size) / (1 << 20); }
};

// A total below this share of the reference's writes counts as zero.
inline constexpr double smallest_total = 0.2;

// The rows of one size, in the order of the ways; those that failed are left out. Empty when the recycled buffer
// itself failed.
std::vector<cost_row> rows_of(const cost_outcome& outcome, std::uint64_t size);

// A column of the table, after the way's name.
struct cost_column {
  const char* first;  // the two lines of its head
  const char* second;
  std::string (*show)(const cost_row&);
};
const std::vector<cost_column>& cost_columns();

std::string render_cost_table(const cost_outcome& outcome, bool colour);
// One sentence for each way, at the largest size.
std::vector<std::string> render_cost_sentences(const cost_outcome& outcome);
// One remark for each way that could not be measured, or that was not what its name says.
std::vector<std::string> cost_remarks(const cost_outcome& outcome);
nlohmann::json as_json(const cost_outcome& outcome);

// "keeps 32.3 MiB after free"; empty if that is little compared with the size.
std::string kept_in_words(const cost_row& row);

}  // namespace tarn::cli
