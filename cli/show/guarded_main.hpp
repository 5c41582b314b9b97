// SPDX-License-Identifier: MIT
// guarded_main: the outermost frame of a program of tarn. It turns what a command throws into a message on stderr, or one
// JSON object with --json, and into the exit status.
#pragma once

#include <string>
#include <vector>

namespace tarn::cli {

// Runs `run` with the words behind the program's name and returns its status, or that of what it threw.
int guarded_main(int count, char** values, int (*run)(const std::vector<std::string>& words));

}  // namespace tarn::cli
