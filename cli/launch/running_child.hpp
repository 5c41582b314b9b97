// SPDX-License-Identifier: MIT
// running_child: a child process in its own process group, which never outlives this object. The calling process must
// have one thread.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <functional>

#include "cli/launch/child_process.hpp"

namespace tarn::cli {

class running_child {
 public:
  // Requires: `process` was started with own_group.
  explicit running_child(pid_t process) : process_(process) {}
  // Kills the group if the child still runs, and takes its exit status.
  ~running_child() { kill_group(); }
  running_child(const running_child&) = delete;
  running_child& operator=(const running_child&) = delete;

  bool has_ended();        // does not wait
  void terminate() const;  // SIGTERM, to the child alone
  void kill_group();

  // Valid after the child has ended.
  int wait_status() const { return wait_status_; }
  const rusage& usage() const { return usage_; }

 private:
  pid_t process_;
  bool ended_ = false;
  int wait_status_ = 0;
  rusage usage_ = {};
};

// Sleeps until a child may have ended, or `seconds` have passed. Throws interrupted when this process is told to
// end. Requires: SIGCHLD and those signals are held.
void sleep_until_signal(const held_signals& signals, double seconds);

// False: `child` still runs at `deadline` (of monotonic_seconds; 0: none). Calls `each_second` about once a second.
// Throws interrupted.
bool wait_for_end(running_child& child, double deadline, const held_signals& signals,
                  const std::function<void()>& each_second);

}  // namespace tarn::cli
