// SPDX-License-Identifier: MIT
// process_choice: for commands on profiles of several processes: the profiles of several files together, all
// processes as one program, or a selection of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/launch/command_line.hpp"
#include "profiler/model/merge.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Declares "--process PID|NAME".
CLI::Option* add_process_option(command& app, std::string& choice);

// Throws cli_error (usage) if two paths name the same file, whose figures would count twice.
void require_each_once(const std::vector<std::string>& paths);

// Adds the parts of all files. `added` is called after each file, and takes its sites out of the merger; empty: all
// sites stay there. Throws as merge_files does.
void add_files(profiler::profile_merger& merger, const std::vector<std::string>& paths,
               const std::function<void()>& added = {});

// The parts of all files together. Throws cli_error: usage if a file is named twice; refused if one cannot be read,
// or if they cannot be combined.
profiler::profile merge_files(const std::vector<std::string>& paths);

// The profile to show: all of it, or, if `choice` is not empty, the processes with that number or name as one
// program. Throws cli_error (usage) if there is none.
profiler::profile load_for_command(const std::string& path, const std::string& choice,
                                   profiler::profile_detail detail = profiler::profile_detail::all);

// Throws cli_error (refused) if the profile, of this file, tells only who held memory.
void require_costs(const profiler::profile& p, const std::string& path);

}  // namespace tarn::cli
