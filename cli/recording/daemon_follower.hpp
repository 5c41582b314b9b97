// SPDX-License-Identifier: MIT
// daemon_follower: a program may go on in the background after its first process has ended (daemon(), "--daemonize"). Such
// a daemon is recorded until it ends, or until this process gets a signal to end. A daemon is a descendant that executes
// the same file, in a session of its own. Other descendants that still run are only named: waiting for a helper that some
// build has left behind would never end.
// For one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "profiler/collect/recording.hpp"

namespace tarn::cli {

class daemon_follower {
 public:
  // `file`: the executable that the program's start leads to.
  explicit daemon_follower(const std::string& file);
  // While the first process runs, which may execute another file.
  void look(pid_t program);
  // After it has ended. Says on stderr what it waits for, and what still runs at the end, if `prints`. Throws profile_error.
  void follow(profiler::recording& record, bool prints);

 private:
  struct background {
    std::vector<pid_t> daemons;
    std::vector<pid_t> others;
    bool may_become_daemon = false;  // same file, still in the session of this process
  };
  background find(const profiler::recording& record) const;

  std::string file_;
};

}  // namespace tarn::cli
