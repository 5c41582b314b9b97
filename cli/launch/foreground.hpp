// SPDX-License-Identifier: MIT
// foreground: runs a program in the foreground in place of this process, and measures it. Signals sent to this
// process are passed on to the program; those of the terminal reach it directly, as it stays in the same process
// group. Stopping and continuing work as usual. The calling process must have one thread.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <string>

#include "cli/launch/child_process.hpp"

namespace tarn::cli {

// What libtarn wrote at the exit of each process of a run (TARN_STATS=FILE): sums over the processes that reported.
struct exit_statistics {
  std::uint64_t processes = 0;
  std::uint64_t returned = 0;  // bytes returned to the system
};

exit_statistics read_exit_statistics(const std::string& path);
exit_statistics parse_exit_statistics(const std::string& text);

struct foreground_result {
  int wait_status = 0;
  double wall_seconds = 0;
  rusage usage = {};  // of the program and of all descendants that were waited for
};

// Callbacks during the run of the program.
struct foreground_look {
  double interval_seconds = 1;
  std::function<void(pid_t program)> look;  // must not throw
  // Called while /proc still has the ended program; must not throw. May be empty.
  std::function<void(int wait_status)> ended = {};
};

foreground_result run_in_foreground(const child_request& request, const foreground_look* each = nullptr);

}  // namespace tarn::cli
