// SPDX-License-Identifier: MIT
// cost_report: the table, the sentences and the JSON of the cost of large buffers. Pure functions of the outcome;
// any thread. docs/explanation/cost.md explains the columns to users.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/cost/cost_worker.hpp"

namespace tarn::cli {

struct cost_settings {
  std::vector<std::uint64_t> sizes;
  int rounds = 5;
  double seconds = 0.08;  // duration of one measurement, which takes at least a few cycles
  std::uint64_t seed = 0;
};

// One way at one size.
struct cost_result {
  std::size_t way = 0;  // index in the outcome's ways
  std::uint64_t size = 0;
  std::vector<cost_figures> rounds;
  std::string failure;  // why the way takes no further part; empty: it does
};

struct cost_outcome {
  std::vector<buffer_way> ways;
  std::vector<std::uint64_t> sizes;
  std::vector<cost_result> results = {};  // size by size; within a size in the order of the ways
  int rounds = 0;
};

// One way at one size: medians over the rounds.
// The true total is what a cycle takes more than the two writes alone take on a recycled buffer:
//   allocate + first write + second write + free - (first + second write of the recycled one).
// Below zero where writing is faster than there, for example on huge pages.
struct cost_row {
  const cost_result* result = nullptr;
  const buffer_way* way = nullptr;
  cost_figures middle = {};
  double timed_seconds = 0;  // what a timer around allocating and freeing sees
  double total_seconds = 0;
  double lowest_total = 0;
  double highest_total = 0;
  bool is_reference = false;
  // Share of the true total that a timer sees; none for the reference, or if the total is too small to divide by.
  std::optional<double> seen_share = {};

  double size_mib() const { return static_cast<double>(result->size) / (1 << 20); }
};

// The rows of one size, in the order of the ways; those that failed are left out. Empty when the recycled buffer
// itself failed.
std::vector<cost_row> rows_of(const cost_outcome& outcome, std::uint64_t size);

// `terminal`: its columns, of which the most informative ones are shown as far as they fit; 0: all.
std::string render_cost_table(const cost_outcome& outcome, bool colour, std::size_t terminal = 0);
// One remark for each way that could not be measured, or that was not what its name says.
std::vector<std::string> cost_remarks(const cost_outcome& outcome);
nlohmann::json as_json(const cost_outcome& outcome);

}  // namespace tarn::cli
