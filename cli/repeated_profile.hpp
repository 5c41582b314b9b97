// SPDX-License-Identifier: MIT
// repeated_profile: several recordings of one command, one after the other: tarn profile -n.
// For a process with one thread.
#pragma once

#include <string>

#include "command_line.hpp"

namespace tarn::cli {

// Records the program so many times, into OUTPUT-1 and so on, by `tarn profile` with the same options for each. Standard
// input that is a file begins anew for each. A run that ends otherwise than the first is the last; so is one that a signal ends, or tarn
// refuses. Ends as the last one ended. Throws cli_error where the runs cannot be repeated.
[[noreturn]] void profile_repeatedly(const command_line& line, int runs, const std::string& output,
                                     bool tells);

}  // namespace tarn::cli
