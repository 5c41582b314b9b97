// SPDX-License-Identifier: MIT
// push_options: --push and what belongs to it, the same in each command that has it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/control/profile_push.hpp"
#include "cli/launch/command_line.hpp"

namespace tarn::cli {

struct push_arguments {
  std::string store;
  double seconds = 15;
  std::vector<std::string> labels;
  std::string headers_file;
  std::string authorities;
};

// Returns the options, --push first.
std::vector<CLI::Option*> add_push_options(command& app, push_arguments& push);

// None: nothing is sent. Throws cli_error (usage).
std::optional<push_settings> push_settings_of(const command& app, const push_arguments& push);

}  // namespace tarn::cli
