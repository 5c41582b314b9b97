// SPDX-License-Identifier: MIT
// command_line: the options of a command and the parsing of its arguments.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::cli {

struct command_line {
  std::vector<std::string> options;  // tarn's own, before the program
  std::vector<std::string> program;  // PROGRAM ARG…
};

class command : public CLI::App {
 public:
  // `usage`: the line under "Usage:" in the help; `end`: its last paragraphs.
  command(const std::string& name, const std::string& what, const std::string& usage, const std::string& end);

  // `names`: as in the help, "-n,--rounds N"; without a dash, words that are no options.
  template <class T>
  CLI::Option* option(const std::string& names, T& value, const std::string& help,
                      const CLI::Validator& check = {}) {
    const std::size_t blank = names.find(' ');
    return add_option(names.substr(0, blank), value, help)
        ->option_text(names.substr(blank + 1))
        ->check(check);
  }
};

// Splits at "--"; without one, at the first word that is neither an option nor an option's value. "--with" takes
// several NAME=LIB.
command_line split_command_line(const std::vector<std::string>& words, const command& app);

// Parses the options. Prints help and returns false for --help; throws cli_error (with `error_code`
// and the nearest option's name) for anything unknown or malformed.
bool parse_options(command& app, std::vector<std::string> options, int error_code);

// None: the word is not a number above 0.
std::optional<pid_t> process_id(const std::string& word);

// Throws cli_error when no program is given.
void require_program(const command_line& line, std::string_view command, int error_code);

}  // namespace tarn::cli
