// SPDX-License-Identifier: MIT
// tree_verdict: what `tarn profile` prints about a program that started others: all processes together, then each
// by cost. profile_verdict.hpp is for a single process.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/collect/process_summary.hpp"
#include "profiler/collect/recording.hpp"

namespace tarn::cli {

// Whether several processes were recorded.
bool is_tree(const profiler::recording& record);

// Prints half a page on stderr: the tree, its processes, the costliest one in detail. `cpu_ns`: processor time that
// the system has counted for all processes of the tree, including those that were not recorded; 0: not known.
void print_tree_verdict(const profiler::recording& record, double cpu_ns);

std::string render_tree(const std::vector<profiler::process_summary>& processes, double cpu_ns,
                        std::size_t width);
nlohmann::json tree_as_json(const std::vector<profiler::process_summary>& processes);

}  // namespace tarn::cli
