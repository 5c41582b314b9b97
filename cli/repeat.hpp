// SPDX-License-Identifier: MIT
// repeat: how a program is started, kept for later, and the same start again: arguments, working directory, environment
// and standard input. For a process with one thread. Failures are cli_error, and say why a command cannot be repeated.
#pragma once

#include <string>
#include <vector>

#include "profiler/model/profile.hpp"
#include "profiler/model/recorded_command.hpp"
#include "program_run.hpp"

namespace tarn::cli {

// The start of `path` with `words` by this process, with its directory, environment and standard input.
profiler::recorded_command describe_start(const std::string& path, const std::vector<std::string>& words);

// Empty, or why nobody could read this input again, and what to do.
std::string input_refusal(const profiler::recorded_command& command);

struct repeat_wishes {
  std::string input;       // read this instead of what was recorded; empty: as recorded
  bool is_server = false;  // its end says nothing
};

// The command of the profile at `path`, once it is sure that it can be repeated. Throws cli_error otherwise. The file must
// be the user's own: its command is going to be executed.
profiler::recorded_command load_repeatable(const std::string& path, const profiler::profile& p,
                                           const repeat_wishes& wishes);

// Gives this process the command's directory and the variables that are kept, and says in `notes` what else differs from
// the recorded start. Returns how to run the program.
run_settings restore_start(const profiler::recorded_command& command, const repeat_wishes& wishes,
                           std::vector<std::string>& notes);

}  // namespace tarn::cli
