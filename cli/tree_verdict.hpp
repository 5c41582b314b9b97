// SPDX-License-Identifier: MIT
// tree_verdict: what `tarn profile` says of a program that started others: all processes together, then each by cost. What it
// says of one process is in profile_verdict.hpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/collect/process_summary.hpp"
#include "profiler/collect/recording.hpp"

namespace tarn::cli {

// Whether there is more than one process to speak of.
bool is_tree(const profiler::recording& record);

// Half a page on stderr: the tree, its processes, the costliest one in detail. `cpu_ns`: what the system has counted for
// all processes of the tree, those too that were not recorded; 0: not known.
void print_tree_verdict(const profiler::recording& record, double cpu_ns);

std::string render_tree(const std::vector<profiler::process_summary>& processes, double cpu_ns,
                        std::size_t width);
nlohmann::json tree_as_json(const std::vector<profiler::process_summary>& processes);

}  // namespace tarn::cli
