// SPDX-License-Identifier: MIT
// completion: what can stand at a place of a command line. The shells' scripts ask for it by `tarn __complete WORDS`. What
// follows the options of a command (profiles, a process, a program with its arguments) is derived from the names that its
// usage and its options show: PROFILE, PID, PROGRAM. Any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/manual/verb.hpp"

namespace tarn::cli {

inline constexpr const char* complete_word = "__complete";

// `words`: those after "tarn", up to the one that is completed, which may be empty. The first line of the answer is what
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

// The script for "bash", "zsh" or "fish"; empty: there is none.
std::string completion_script(const std::string& shell);

}  // namespace tarn::cli
