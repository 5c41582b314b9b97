// SPDX-License-Identifier: MIT
#include "cli/launch/child_subreaper.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "cli/launch/child_process.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr double moment_seconds = 0.5;

std::vector<std::uint32_t> own_children() {
  return profiler::children_of(static_cast<std::uint32_t>(getpid()));
}

}  // namespace

child_subreaper::child_subreaper() : before_(own_children()) {
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

// The children of one that is killed become children of this process in turn.
child_subreaper::~child_subreaper() {
  const double deadline = monotonic_seconds() + moment_seconds;
  for (auto left = alive(0); !left.empty() && monotonic_seconds() < deadline; left = alive(0)) {
    for (const std::uint32_t process : left) kill(static_cast<pid_t>(process), SIGKILL);
    poll(nullptr, 0, 1);
  }
  prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_, 0, 0, 0);
}

std::vector<std::uint32_t> child_subreaper::alive(pid_t program) const {
  std::vector<std::uint32_t> found = own_children();
  std::erase_if(found, [this, program](std::uint32_t child) {
    const auto process = static_cast<pid_t>(child);
    return process == program || std::find(before_.begin(), before_.end(), child) != before_.end() ||
           waitpid(process, nullptr, WNOHANG) != 0;
  });
  return found;
}

std::vector<std::string> child_subreaper::left_by(pid_t program) const {
  const double deadline = monotonic_seconds() + moment_seconds;
  std::vector<std::uint32_t> left = alive(program);
  while (!left.empty() && monotonic_seconds() < deadline) {
    poll(nullptr, 0, 1);
    left = alive(program);
  }
  std::vector<std::string> names;
  for (const std::uint32_t process : left) {
    const auto found = profiler::read_process(process);
    names.push_back(found ? found->name : "?");
  }
  return names;
}

}  // namespace tarn::cli
