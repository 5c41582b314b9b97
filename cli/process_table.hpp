// SPDX-License-Identifier: MIT
// process_table: the processes of a recorded tree, or of a merged profile, as a table by cost. Pure; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/collect/process_summary.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// The processes of a merged profile, the costliest first. `parts`: as load_parts gives it.
std::vector<profiler::process_summary> processes_in(const profiler::profile& parts);

profiler::process_summary sum_of(const std::vector<profiler::process_summary>& processes);

// A line for each, `most` at most and the rest as one; then "  ", as what stands below a headline.
// `with_files`: the last column is the file that each is in.
std::string render_processes(const std::vector<profiler::process_summary>& processes, std::size_t most,
                             bool with_files, std::size_t width);

nlohmann::json as_json(const profiler::process_summary& one);

}  // namespace tarn::cli
