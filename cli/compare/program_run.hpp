// SPDX-License-Identifier: MIT
// program_run: runs a program once under a contender, and measures what it cost. comparison does so in every round.
// The calling process must have one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/compare/call_tails.hpp"
#include "cli/compare/contender.hpp"
#include "cli/compare/server_load.hpp"
#include "cli/launch/program_target.hpp"

namespace tarn::cli {

struct run_figures {
  double wall_seconds = 0;
  double cpu_seconds = 0;
  double peak_rss_bytes = 0;
  double minor_faults = 0;
  double major_faults = 0;
};

// How the program is run, the same under every contender.
struct run_settings {
  double timeout_seconds = 0;    // 0: none
  bool show_output = false;      // of the program
  bool shows_on_errors = false;  // all of it on standard error, as standard output has the figures
  std::string input = "/dev/null";
  std::int64_t input_offset = 0;  // where in `input` the program begins to read
  // Output to a nameless file instead of /dev/null, for which some programs skip work.
  bool output_to_file = false;
  std::optional<server_load> load;     // the program is a server
  std::optional<tail_settings> tails;  // its calls of malloc are timed one by one, which makes it slower
};

struct run_attempt {
  int wait_status = 0;
  bool timed_out = false;
  std::string problem;  // of a server: empty, or why it was not measured
  // Of a server: its peak memory and faults, the duration of the load as wall time, and the server's processor time
  // during that.
  run_figures figures;
  call_tails tails;  // with run_settings::tails
  std::string error_tail;
  std::vector<std::string> left;  // names of processes that went on after the end; they are ended
};

// `signals`: SIGCHLD, and those that interrupt. Calls `each_second` about once a second while the program runs. Throws interrupted, and cli_error when the program
// cannot be started.
run_attempt run_program(const contender& who, const program_target& target,
                        const std::vector<std::string>& words, const run_settings& settings,
                        const held_signals& signals, const std::function<void()>& each_second);

}  // namespace tarn::cli
