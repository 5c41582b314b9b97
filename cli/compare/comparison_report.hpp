// SPDX-License-Identifier: MIT
// comparison_report: the table, the verdict in plain words, and the JSON of a comparison.
// Pure functions of the outcome; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/compare/comparison.hpp"
#include "cli/compare/statistics.hpp"

namespace tarn::cli {

// The result for `subject` against one other contender in one row of the table.
struct pairwise_verdict {
  std::string metric;  // "wall time" …
  std::string subject;
  std::string other;
  judgement judged;
};

// Those that have not failed, and have figures.
std::vector<const contender_result*> with_figures(const comparison_outcome& outcome);
// "jemalloc: /usr/lib/libjemalloc.so.2; ...": links are followed, because the file's own name often tells the version.
std::string libraries_of(const std::vector<const contender_result*>& columns);

// The contender that the verdict is about: tarn, or the first one if tarn takes no part.
std::string subject_of(const comparison_outcome& outcome);

// The subject against every other contender that has figures, for every metric.
std::vector<pairwise_verdict> judge_all(const comparison_outcome& outcome);

// In as many blocks of columns, one below the other, as a terminal of that width needs; 0: one block.
std::string render_table(const comparison_outcome& outcome, bool colour, std::size_t terminal = 0);
// Sentences, one per line.
std::vector<std::string> render_verdict(const comparison_outcome& outcome);
// What went wrong, one paragraph per contender; empty if nothing did.
std::string render_failures(const comparison_outcome& outcome);
nlohmann::json as_json(const comparison_outcome& outcome);

// 0, or exit_code::results_differ, or exit_code::program_fails.
int exit_code_of(const comparison_outcome& outcome, bool ignore_failure);

}  // namespace tarn::cli
