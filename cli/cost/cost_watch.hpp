// SPDX-License-Identifier: MIT
// cost_watch: follows the machine, a process or a program and prints every second what page faults cost there. Ends
// with a summary: on a signal (SIGINT ...), after a given time, or at the end of the process. The calling process must
// have one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cost/memory_prices.hpp"

namespace tarn::cli {

struct watch_settings {
  double interval_seconds = 1;
  std::optional<double> duration_seconds;
  std::FILE* json = nullptr;  // one object per line, then one with the summary
};

// All processes together; the summary names those with the most page faults. Throws cli_error if /proc cannot be
// read.
void watch_machine(const memory_prices& prices, const watch_settings& settings);

// Throws cli_error if there is no such process. The watch ends with the process.
void watch_process(pid_t process, const memory_prices& prices, const watch_settings& settings);

// Starts the program and follows it and its descendants until it ends; lines, or with `json`
// objects instead, go to stderr, as stdout is the program's.
// Returns its wait status. Throws cli_error (126, 127) when it cannot be started.
int watch_program(const std::vector<std::string>& words, const memory_prices& prices,
                  const watch_settings& settings);

}  // namespace tarn::cli
