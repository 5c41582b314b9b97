// SPDX-License-Identifier: MIT
// command_line: parsing of arguments, shared by all commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::cli {

struct command_line {
  std::vector<std::string> options;  // tarn's own, before the program
  std::vector<std::string> program;  // PROGRAM ARG…
};

// Splits at "--"; without one, at the first word that is neither an option nor an option's value. `valued` names
// the options that take one value; "--with" takes several NAME=LIB.
command_line split_command_line(const std::vector<std::string>& words,
                                const std::vector<std::string>& valued);

// The line under "Usage:" in the command's help.
void set_usage(CLI::App& app, const std::string& usage);

// Parses the options. Prints help and returns false for --help; throws cli_error (with `error_code`
// and the nearest option's name) for anything unknown or malformed.
bool parse_options(CLI::App& app, std::vector<std::string> options, int error_code);

// Throws cli_error when no program is given.
void require_program(const command_line& line, std::string_view command, int error_code);

}  // namespace tarn::cli
