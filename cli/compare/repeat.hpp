// SPDX-License-Identifier: MIT
// repeat: describes how a program is started (arguments, working directory, environment and standard input), stores
// that, and repeats the start later. The calling process must have one thread. Failures are cli_error, and say why a
// command cannot be repeated.
#pragma once

#include <string>
#include <vector>

#include "cli/compare/program_run.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/recorded_command.hpp"

namespace tarn::cli {

// The start of `path` with `words` by this process, with its directory, environment and standard input.
profiler::recorded_command describe_start(const std::string& path, const std::vector<std::string>& words);

// Why this input cannot be read again, and what to do; empty: it can. In place of a terminal the runs read /dev/null.
std::string input_refusal(const profiler::recorded_command& command);

struct repeat_wishes {
  std::string input;       // read this instead of what was recorded; empty: as recorded
  bool is_server = false;  // its exit status is not checked
  bool trusted = false;    // the command is executed whoever recorded it
};

// The command of the profile at `path`, after checking that it can be repeated; otherwise throws cli_error. As it will be
// executed, it must be one that this user has recorded (own_command.hpp); for any other the user is asked.
profiler::recorded_command load_repeatable(const std::string& path, const profiler::profile& p,
                                           const repeat_wishes& wishes);

// Sets this process's directory and the kept variables to those of the command, and reports in `notes` what else
// differs from the recorded start. Returns how to run the program.
run_settings restore_start(const profiler::recorded_command& command, const repeat_wishes& wishes,
                           std::vector<std::string>& notes);

}  // namespace tarn::cli
