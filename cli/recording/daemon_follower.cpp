// SPDX-License-Identifier: MIT
#include "cli/recording/daemon_follower.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/record/session.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

// A daemon calls setsid() after the fork, while its parent may end at once.
constexpr double seconds_to_setsid = 1;
constexpr double seconds_between_searches = 0.5;

std::string file_of(pid_t process) {
  std::error_code error;
  return fs::read_symlink(fmt::format("/proc/{}/exe", process), error).string();
}

std::string say_processes(const std::vector<pid_t>& processes) {
  std::vector<std::string> names;
  for (const pid_t process : processes) {
    const auto known = profiler::read_process(static_cast<std::uint32_t>(process));
    names.push_back(fmt::format("{} (process {})", known ? known->name : "?", process));
  }
  constexpr std::size_t most = 5;
  const std::size_t more = names.size() > most ? names.size() - most : 0;
  names.resize(names.size() - more);
  return join(names, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

daemon_follower::daemon_follower(const std::string& file) {
  std::error_code error;
  file_ = fs::canonical(file, error).string();
}

void daemon_follower::look(pid_t program) {
  std::string file = file_of(program);
  // Until it executes the program, the new process is a copy of this one. It may end before the next look.
  if (!file.empty() && file != file_of(getpid())) file_ = std::move(file);
}

daemon_follower::background daemon_follower::find(const profiler::recording& record) const {
  background found;
  const std::string started_here = std::string(profiler::session_variable) + "=" + record.place();
  const std::vector<std::uint32_t> recorded = record.running();
  for (const std::uint32_t id : profiler::numbers_in("/proc")) {
    const auto process = static_cast<pid_t>(id);
    const std::string file = file_of(process);
    if (file.empty() || process == getpid()) continue;
    // A daemon may have written its title over its environment, but then it is recorded already.
    if (std::find(recorded.begin(), recorded.end(), id) == recorded.end() &&
        profiler::proc_text(id, "environ").find(started_here) == std::string::npos) {
      continue;
    }
    const bool is_same = file == file_;
    const bool has_own_session = getsid(process) != getsid(0);
    (is_same && has_own_session ? found.daemons : found.others).push_back(process);
    found.may_become_daemon = found.may_become_daemon || (is_same && !has_own_session);
  }
  return found;
}

void daemon_follower::follow(profiler::recording& record, bool prints) {
  if (record.place().empty()) return;
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const double begin = monotonic_seconds();
  background now = find(record);
  double next_search = begin;
  double wait = busy_seconds;
  bool has_printed = false;
  bool is_asked = false;
  while (!is_asked && (!now.daemons.empty() ||
                       (now.may_become_daemon && monotonic_seconds() - begin < seconds_to_setsid))) {
    if (!now.daemons.empty() && !std::exchange(has_printed, true) && prints) {
      print_note(fmt::format(
          "{} goes on in the background, and is recorded until it ends; ^C ends the recording only",
          say_processes(now.daemons)));
    }
    wait = record.drain() ? busy_seconds : std::min(idle_seconds, 2 * wait);
    is_asked = signals.take(wait) != 0;
    if (monotonic_seconds() < next_search) continue;
    now = find(record);
    next_search = monotonic_seconds() + (now.daemons.empty() ? 0 : seconds_between_searches);
  }
  // timeout(1) sends its signal twice; the second one must not end this process before the files are written.
  while (signals.take(0) != 0) {
  }
  std::vector<pid_t> left = std::move(now.others);
  left.insert(left.end(), now.daemons.begin(), now.daemons.end());
  if (!left.empty() && prints)
    print_note(fmt::format("still running, and no longer recorded: {}", say_processes(left)));
}

}  // namespace tarn::cli
