// SPDX-License-Identifier: MIT
// manual: the table of the verbs, and what is made of their definitions: what `tarn help` prints, the manual pages, and the
// answers to the shells' completion. Any thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/launch/command_line.hpp"

namespace tarn::cli {

// A command under the name that follows `tarn`. The table of all verbs is cli/commands/verbs.cpp.
struct verb {
  const char* name;
  int (*run)(const std::vector<std::string>& words);
  const char* group = nullptr;  // the heading in `tarn help` that begins here
  // The exit code is the program's own, also 2, so that wrong usage is reported by 125 (exit_code::refused).
  bool passes_status = false;
};

// Calls `take` with each verb's command, as it parses its words.
void define_all(std::span<const verb> verbs, const std::function<void(const command& app)>& take);

// The verbs' summaries as one says them in a list: "start a program on tarn".
std::string phrase_of(const command& app);

std::string render_overview(std::span<const verb> verbs);

// Manual pages in man(7), for groff and mandoc: tarn(1), and tarn-VERB(1) for each verb. The date is that of
// SOURCE_DATE_EPOCH (seconds since 1970) if it is set, so that a build can be repeated exactly.
std::string man_page(const command& app);
std::string overview_man_page(std::span<const verb> verbs);

inline constexpr const char* complete_word = "__complete";

// What can stand at a place of a command line. The shells' scripts (cli/manual/completions) ask for it by `tarn __complete
// WORDS`. What follows the options of a command (profiles, a process, a program with its arguments) is derived from the names
// that its usage and its options show: PROFILE, PID, PROGRAM. `words`: those after "tarn", up to the one that is completed, which may be empty. The first line of the answer is what
// can stand there:
//
//     words         the lines that follow: a word each; behind a tabulator what it means
//     files         any file; "files .prof": with this ending, or a folder
//     folders
//     program N     the first word, or an argument, of the program that begins at word N (0 is "tarn")
//
// An empty line: unknown. Bash passes "--option=value" as three words, other shells as one; then the words of the answer
// begin with "--option=", too.
std::string completion_of(std::span<const verb> verbs, const std::vector<std::string>& words);

}  // namespace tarn::cli
