// SPDX-License-Identifier: MIT
// verb: a command under the name that follows `tarn`. The table of all verbs is cli/commands/verbs.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/launch/command_line.hpp"

namespace tarn::cli {

struct verb {
  const char* name;
  int (*run)(const std::vector<std::string>& words);
  const char* group = nullptr;  // the heading in `tarn help` that begins here
  // The exit code is the program's own, also 2, so that wrong usage is reported by 125 (exit_code::refused).
  bool passes_status = false;
};

// Calls `take` with each verb's command, as it parses its words.
inline void define_all(std::span<const verb> verbs, const std::function<void(const command& app)>& take) {
  for (const verb& each : verbs) define_command(each.run, take);
}

}  // namespace tarn::cli
