// SPDX-License-Identifier: MIT
// paused_profile: `tarn profile --paused`, and `tarn profile --rounds`. The calling process must have one thread.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/command_line.hpp"
#include "profiler/collect/recording.hpp"

namespace tarn::cli {

// Records the program the requested number of times, into OUTPUT-1 and so on, by `tarn profile` with the same
// options each time. Standard input that is a file is read from its beginning each time. Stops after a run that
// ends differently from the first one, by a signal, or because tarn refuses. Ends as the last run ended. Throws
// cli_error if the runs cannot be repeated.
[[noreturn]] void profile_repeatedly(const command_line& line, int runs, const std::string& output,
                                     bool prints);

// Runs a program without recording it, and attaches to it when `tarn attach` asks for it; until then nothing is slowed
// down. Ends this process as the program ends; each period of recording leaves files of its own. Throws cli_error.
int profile_paused(const std::vector<std::string>& program, const profiler::recording_settings& settings,
                   bool quiet, bool json);

}  // namespace tarn::cli
