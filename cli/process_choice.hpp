// SPDX-License-Identifier: MIT
// process_choice: profiles of several processes for the commands: those of several files together, all processes as one
// program, or the chosen ones of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Declares "--process PID|NAME".
void add_process_option(CLI::App& app, std::string& choice);

// Throws cli_error (usage) where two paths lead to the same file: its figures would count twice.
void require_each_once(const std::vector<std::string>& paths);

// The parts of all files together. Throws cli_error: usage where one is named twice, refused where one cannot be read or
// they do not go together.
profiler::profile merge_files(const std::vector<std::string>& paths);

// The profile to show: all of it, or, where `choice` is not empty, the processes of that number or name as one program.
// Throws cli_error, usage where there is none.
profiler::profile load_for_command(const std::string& path, const std::string& choice,
                                   profiler::profile_detail detail = profiler::profile_detail::all);

// Throws cli_error (refused) for a merged profile: it has no events to replay.
void require_events(const profiler::profile& p, const std::string& path);

}  // namespace tarn::cli
