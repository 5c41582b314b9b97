// SPDX-License-Identifier: MIT
// completed_words: what can stand at a place of a command line, for the scripts of all shells. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/launch/command_line.hpp"

namespace tarn::cli {

enum class completed_kind : std::uint8_t { nothing, words, file, folder, profile, plan, process };

struct completed_value {
  completed_kind kind = completed_kind::nothing;
  std::vector<std::string> words{};
};

// Of an option that takes a value.
completed_value value_of(const command& app, const CLI::Option* option);
// Of the words that are no options; `nothing` if the command has none or they cannot be known.
completed_value argument_of(const command& app);
// Where a program with its arguments stands.
enum class program_place : std::uint8_t { nowhere, at_once, after_plan, after_dashes };
program_place program_of(const command& app);

// The options of a command, positional ones left out.
std::vector<const CLI::Option*> options_of(const command& app);

}  // namespace tarn::cli
