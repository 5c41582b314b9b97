// SPDX-License-Identifier: MIT
// program_run: runs a program once under a contender, and measures what it cost. comparison does so in every round.
// The calling process must have one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/compare/contender.hpp"
#include "cli/compare/run_attempt.hpp"
#include "cli/launch/program_target.hpp"

namespace tarn::cli {

// Calls `each_second` about once a second while the program runs. Throws interrupted, and cli_error when the program
// cannot be started.
run_attempt run_program(const contender& who, const program_target& target,
                        const std::vector<std::string>& words, const run_settings& settings,
                        const std::function<void()>& each_second);

}  // namespace tarn::cli
