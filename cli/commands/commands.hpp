// SPDX-License-Identifier: MIT
// commands: the entry of each command. `words` is what follows the command's name. Each returns
// the exit code and throws cli_error.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/manual/manual.hpp"

namespace tarn::cli {

int cmd_run(const std::vector<std::string>& words);
int cmd_compare(const std::vector<std::string>& words);
int cmd_cost(const std::vector<std::string>& words);
int cmd_prove(const std::vector<std::string>& words);
int cmd_profile(const std::vector<std::string>& words);
int cmd_doctor(const std::vector<std::string>& words);
int cmd_show(const std::vector<std::string>& words);
int cmd_diff(const std::vector<std::string>& words);
int cmd_export(const std::vector<std::string>& words);
int cmd_report(const std::vector<std::string>& words);
int cmd_advise(const std::vector<std::string>& words);
int cmd_attach(const std::vector<std::string>& words);
int cmd_merge(const std::vector<std::string>& words);
int cmd_control(const std::vector<std::string>& words);
int cmd_serve(const std::vector<std::string>& words);
int cmd_top(const std::vector<std::string>& words);
// tarn doctor --options
int show_options(bool json);
// Hidden: runs inside the child that show_options starts with the library preloaded.
int print_preloaded_options();

// Those that `tarn help` lists, in its order.
std::span<const verb> verbs();
// Hidden, for builds and packages: the manual pages, and the definitions as JSON.
int print_manual(const std::vector<std::string>& words);

inline constexpr const char* print_manual_word = "--print-manual";
inline constexpr const char* print_preloaded_options_word = "--print-preloaded-options";

}  // namespace tarn::cli
