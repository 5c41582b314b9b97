// SPDX-License-Identifier: MIT
// completion: scripts that complete tarn's commands, options and values in bash, zsh and fish. What follows the options
// of a command (profiles, a process, a program with its arguments) is derived from the names that its usage and its
// options show: PROFILE, PID, PROGRAM. Any thread.
#pragma once

#include <span>
#include <string>

#include "cli/manual/verb.hpp"

namespace tarn::cli {

std::string bash_completion(std::span<const verb> verbs);
std::string zsh_completion(std::span<const verb> verbs);
std::string fish_completion(std::span<const verb> verbs);

}  // namespace tarn::cli
