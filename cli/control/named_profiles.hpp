// SPDX-License-Identifier: MIT
// named_profiles: the heap profiles of running processes, with the names of their functions. What was looked up for a process is
// kept for its next profile. Any thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "profiler/export/pprof_names.hpp"

namespace tarn::cli {

class named_profiles {
 public:
  // As the process gives it; not packed. `view`: heap or allocs. Throws cli_error (refused) and profile_error.
  std::string ask(pid_t process, const char* view);
  // Forgets all others.
  void keep(const std::vector<pid_t>& processes);

 private:
  // One profile at a time, so that their memory is that of one.
  std::timed_mutex turn_;
  std::map<pid_t, profiler::pprof_names> names_;  // guarded by turn_
};

}  // namespace tarn::cli
