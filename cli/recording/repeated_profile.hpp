// SPDX-License-Identifier: MIT
// repeated_profile: several recordings of one command in succession: tarn profile -r. The calling process must have one
// thread.
#pragma once

#include <string>

#include "cli/launch/command_line.hpp"

namespace tarn::cli {

// Records the program the requested number of times, into OUTPUT-1 and so on, by `tarn profile` with the same
// options each time. Standard input that is a file is read from its beginning each time. Stops after a run that
// ends differently from the first one, by a signal, or because tarn refuses. Ends as the last run ended. Throws
// cli_error if the runs cannot be repeated.
[[noreturn]] void profile_repeatedly(const command_line& line, int runs, const std::string& output,
                                     bool tells);

}  // namespace tarn::cli
