// SPDX-License-Identifier: MIT
// foreground: runs a program in the foreground in place of this process, and measures it. Signals sent to this
// process are passed on to the program; those of the terminal reach it directly, as it stays in the same process
// group. Stopping and continuing work as usual. Orphans that become children of this process, as in a container whose
// first process it is, are waited for. The calling process must have one thread; `look` may start others.
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
  // This process stops while the program is stopped, for a shell to see. Without one that would only keep `look` from its work.
  bool stops_along = true;
  // `look` starts processes, and waits for them itself. Orphans stay until the end then.
  bool has_children = false;
};

// Call after a process was killed. Waits until the control group of this process is no longer full, half a second at most. While
// anybody reads files of a dead process in /proc, its memory stays and still counts for the group. If this process needs a new page then,
// the kernel kills it, as no other process of the group is left to kill. `root`: as in os::look_at_memory().
void await_room(const char* root = "");

// Waits so when the program has been killed, if there is `each`.
foreground_result run_in_foreground(const child_request& request, const foreground_look* each = nullptr);

}  // namespace tarn::cli
