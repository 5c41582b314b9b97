// SPDX-License-Identifier: MIT
// process_table: the processes of a recorded tree, or of a merged profile, as a table by cost; and what `tarn
// profile` prints about a program that started others. profile_verdict.hpp is for a single process. Any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/collect/process_summary.hpp"
#include "profiler/collect/recording.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Whether several processes were recorded.
bool is_tree(const profiler::recording& record);

// Prints half a page on stderr: the tree, its processes, the costliest one in detail. `cpu_ns`: processor time that
// the system has counted for all processes of the tree, including those that were not recorded; 0: not known.
void print_tree_verdict(const profiler::recording& record, double cpu_ns);

std::string render_tree(const std::vector<profiler::process_summary>& processes, double cpu_ns,
                        std::size_t width);
nlohmann::json tree_as_json(const std::vector<profiler::process_summary>& processes);

// The processes of a merged profile, the costliest first. `figures`: of figures_by_process.
std::vector<profiler::process_summary> processes_in(const std::vector<profiler::profile>& figures);

profiler::process_summary sum_of(const std::vector<profiler::process_summary>& processes);

// One line for each of at most `most` processes, and one for the others together. Each line begins with two blanks,
// for use below a headline. `with_files`: the last column is the file that contains the process.
std::string render_processes(const std::vector<profiler::process_summary>& processes, std::size_t most,
                             bool with_files, std::size_t width);

nlohmann::json as_json(const profiler::process_summary& one);

}  // namespace tarn::cli
