// SPDX-License-Identifier: MIT
// program_push: what `tarn run --push` sends: the heap profiles of the program and of the processes that it has started, as long as
// they are its descendants. One thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <vector>

#include "cli/control/named_profiles.hpp"
#include "cli/control/profile_push.hpp"
#include "cli/launch/environment.hpp"

namespace tarn::cli {

class program_push {
 public:
  // Throws cli_error, as profile_push.
  explicit program_push(push_settings settings);

  // What the program needs to be asked: its control socket and its samples. What the variables say already stays; the headers
  // for the store are not for the program.
  static void prepare(environment& variables);
  // To be called while the program runs, soon after its start, with the signals held that no other thread may take.
  void look(pid_t program);
  // After its end. Within about a second.
  void finish();

 private:
  [[nodiscard]] std::vector<pid_t> processes();

  process_labels given_;
  std::atomic<pid_t> program_{0};
  named_profiles profiles_;  // of the pushing thread
  profile_push push_;
};

}  // namespace tarn::cli
