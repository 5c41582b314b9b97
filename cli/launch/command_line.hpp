// SPDX-License-Identifier: MIT
// command_line: what a command's options and texts are, and the parsing of its arguments. The help, the manual pages
// and the completions of the shells (cli/manual/) all come from the `command` that parses the words.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/accepted_values.hpp"

namespace tarn::cli {

struct command_line {
  std::vector<std::string> options;  // tarn's own, before the program
  std::vector<std::string> program;  // PROGRAM ARG…
};

struct exit_meaning {
  static constexpr int of_program = -1;  // in place of a code: the command ends as the program does

  int code;
  const char* meaning;

  std::string code_text() const { return code == of_program ? "other" : std::to_string(code); }
};

inline constexpr exit_meaning usage_exit = {2, "wrong usage"};
inline constexpr exit_meaning damaged_exit = {4, "the profile is damaged; what could be read was used"};
inline constexpr exit_meaning refused_exit = {125, "tarn cannot do it; the message says why"};
inline constexpr exit_meaning not_executable_exit = {126, "the program is not executable"};
inline constexpr exit_meaning not_found_exit = {127, "the program is not found"};
inline constexpr exit_meaning program_exit = {exit_meaning::of_program,
                                              "the program's own; it may also end by the program's signal"};

// The texts of a command. A line has at most 80 columns.
struct command_text {
  const char* name;
  const char* summary;   // one sentence
  const char* usage;     // one form per line
  const char* examples;  // lines, indented by two blanks
  const char* notes;     // paragraphs, separated by empty lines; may be empty
  std::span<const exit_meaning> exits;
  const char* page = "docs/reference/commands.md";  // where to read more
};

class command : public CLI::App {
 public:
  explicit command(const command_text& text);

  // `names`: as in the help, "-n,--rounds N"; without a dash, words that are no options. Of an option that is given
  // several times and takes one value, the last one counts.
  template <class T>
  CLI::Option* option(const std::string& names, T& value, const std::string& help,
                      accepted_values accepted = any_value<T>()) {
    const std::size_t blank = names.find(' ');
    CLI::Option* const one =
        add_option(names.substr(0, blank), value, help)->option_text(names.substr(blank + 1));
    if (accepted.check) one->check(*std::move(accepted.check));
    if (one->get_expected_max() == 1 && one->nonpositional()) one->take_last();
    words_[one] = std::move(accepted.words);
    return one;
  }

  const command_text& text() const noexcept { return text_; }
  const std::string& colour() const noexcept { return colour_; }  // of --color
  // The words that the option's value may be, or be completed to; empty: any text.
  std::vector<std::string> words_of(const CLI::Option* option) const;

 private:
  const command_text& text_;
  std::string colour_ = "auto";
  std::map<const CLI::Option*, std::vector<std::string>> words_;
};

// The names of an option as they are typed, long ones first.
std::vector<std::string> names_of(const CLI::Option* option);
bool takes_value(const CLI::Option* option);

// An entry of a list in a help: the name, and from `column` on the text, in lines of 80 columns.
std::string list_entry(const std::string& name, std::string_view text, std::size_t column);
// The paragraph of a command's exit codes in its help.
std::string render_exits(std::span<const exit_meaning> exits);

// An option that only some uses of a command have, which other options choose: "--by tree", "--watch"; "" is the use
// without any of these.
struct limited_option {
  const CLI::Option* option;
  std::vector<std::string_view> uses;
};

// Throws cli_error (usage) if an option was given that this use does not have.
void require_fitting(const std::vector<limited_option>& options, std::string_view use, std::string_view verb);

// Calls `take` with the command that `run` defines, as `run` would parse its words by; nothing else is done.
void define_command(int (*run)(const std::vector<std::string>& words),
                    const std::function<void(const command& app)>& take);

// Splits at "--"; without one, at the first word that is neither an option nor an option's value.
command_line split_command_line(const std::vector<std::string>& words, const command& app);

// Parses the options. Prints the help or the version and returns false if they are asked for; throws cli_error
// (usage) for anything unknown or malformed, with what is meant or accepted instead.
bool parse_options(command& app, const std::vector<std::string>& options);

// None: the word is not a number above 0.
std::optional<pid_t> process_id(const std::string& word);

// Throws cli_error (usage) when no program is given.
void require_program(const command_line& line, std::string_view command);

}  // namespace tarn::cli
