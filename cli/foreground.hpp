// SPDX-License-Identifier: MIT
// foreground: runs a program in this process's place before the terminal, and measures it.
// Signals sent to this process reach the program; those that the terminal sends reach it by
// themselves, as it stays in the same process group. Stopping and continuing work as without it.
// For a process with one thread.
#pragma once

#include <sys/resource.h>

#include <functional>

#include "child_process.hpp"

namespace tarn::cli {

struct foreground_result {
  int wait_status = 0;
  double wall_seconds = 0;
  rusage usage = {};  // of the program and all descendants that were waited for
};

// Looks at the running program now and then.
struct foreground_look {
  double interval_seconds = 1;
  std::function<void(pid_t program)> look;  // must not throw
  std::function<void(int wait_status)>
      ended;  // while /proc still has the program; likewise. Empty: nobody asks
};

foreground_result run_in_foreground(const child_request& request, const foreground_look* each = nullptr);

}  // namespace tarn::cli
