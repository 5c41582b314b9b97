// SPDX-License-Identifier: MIT
#include "cli/launch/foreground.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/show/text.hpp"
#include "os/memory_pressure.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

exit_statistics parse_exit_statistics(const std::string& text) {
  exit_statistics sums;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("returned") || !object["returned"].is_number_integer())
      continue;  // for example from a process that was killed while it wrote
    ++sums.processes;
    sums.returned += object["returned"].get<std::uint64_t>();
  }
  return sums;
}

exit_statistics read_exit_statistics(const std::string& path) {
  return parse_exit_statistics(text_of_file(path));
}

namespace {

// All signals that a program can handle, except those that report a fault or a closed pipe of the receiver.
// SIGCHLD is held too, and never passed on.
std::vector<int> passed_signals() {
  std::vector<int> numbers = {SIGCHLD, SIGINT,    SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGTSTP,   SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH,
                              SIGALRM, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGXCPU};
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) numbers.push_back(number);
  return numbers;
}

// The terminal signals its foreground process group, which the program may have left. Timers and limits of processor
// time count for this process alone; but an alarm may have been set before tarn was executed, for the program. A signal
// by kill or sigqueue is passed on unless the program itself sent it: its kill(0, ...) has already reached it, and
// passing that on would never end.
bool must_be_forwarded(const siginfo_t& signal, pid_t child) {
  if (signal.si_code <= 0) return signal.si_pid != child;
  switch (signal.si_signo) {
    case SIGALRM: return true;
    case SIGVTALRM:
    case SIGPROF:
    case SIGXCPU: return false;
    default: return getpgid(child) != getpgrp();
  }
}

void forward(const siginfo_t& signal, pid_t child) {
  if (!must_be_forwarded(signal, child)) return;
  if (signal.si_code == SI_QUEUE) {
    sigqueue(child, signal.si_signo, signal.si_value);
  } else {
    kill(child, signal.si_signo);
  }
}

bool is_stopped(pid_t child) {
  const std::optional<profiler::process_figures> found =
      profiler::read_process(static_cast<std::uint32_t>(child));
  return found && found->state == 'T';
}

// In a process of its own, while its parent, tarn, is stopped: continues tarn when the program is continued or ends.
[[noreturn]] void watch_stopped(pid_t tarn, pid_t child) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const timespec wait = to_timespec(0.05);
  while (getppid() == tarn && is_stopped(child)) nanosleep(&wait, nullptr);
  if (getppid() == tarn) kill(tarn, SIGCONT);
  _exit(0);
}

// The program was stopped. This process stops too, so that the shell treats the job as stopped. When the shell
// continues the job, so does the program; when anybody else continues the program, so does this process. The first process of
// a container cannot stop, and no shell waits for it.
void stop_along(pid_t child) {
  const pid_t self = getpid();
  if (self == 1) return;
  const pid_t watcher = fork();
  if (watcher == 0) watch_stopped(self, child);
  if (watcher < 0) return;  // stopped for ever is worse than a shell that does not see the stop
  raise(SIGSTOP);
  kill(watcher, SIGKILL);
  waitpid(watcher, nullptr, 0);
  if (is_stopped(child)) kill(child, SIGCONT);
}

volatile pid_t resting_for = 0;
volatile std::sig_atomic_t has_taken_end = 0;

void rest_after_kill(int, siginfo_t* signal, void*) {
  has_taken_end = 1;
  if (signal->si_pid != resting_for || (signal->si_code != CLD_KILLED && signal->si_code != CLD_DUMPED))
    return;
  const int error = errno;
  const timespec pause = to_timespec(0.1);
  nanosleep(&pause, nullptr);
  errno = error;
}

// To be called once the program has been started. The action stays: the default one, set later, would drop a SIGCHLD that waits.
void prepare_to_rest(pid_t child) {
  resting_for = child;
  struct sigaction rest {};
  rest.sa_sigaction = rest_after_kill;
  rest.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGCHLD, &rest, nullptr);
}

// While one lives, this thread rests for a moment at once when the program has been killed, whatever it does: see await_room().
// A SIGCHLD that came meanwhile is held again afterwards.
class rest_at_kill {
 public:
  rest_at_kill() {
    has_taken_end = 0;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    pthread_sigmask(SIG_UNBLOCK, &ends, &mask_);
  }
  ~rest_at_kill() {
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    if (has_taken_end != 0) kill(getpid(), SIGCHLD);
  }
  rest_at_kill(const rest_at_kill&) = delete;
  rest_at_kill& operator=(const rest_at_kill&) = delete;

 private:
  sigset_t mask_{};
};

// `until`: on the monotonic clock; null: no time limit.
int wait_for_signal(const held_signals& signals, const double* until, siginfo_t& signal) {
  if (until == nullptr) return sigwaitinfo(&signals.held(), &signal);
  const timespec wait = to_timespec(std::max(0.0, *until - monotonic_seconds()));
  return sigtimedwait(&signals.held(), &signal, &wait);
}

// What has happened to the program, which stays to be waited for; false: nothing.
bool has_changed(pid_t child, siginfo_t& state) {
  return waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         state.si_pid == child;
}

bool is_end(const siginfo_t& state) {
  return state.si_code == CLD_EXITED || state.si_code == CLD_KILLED || state.si_code == CLD_DUMPED;
}

int wait_status_of(const siginfo_t& end) {
  return end.si_code == CLD_EXITED ? W_EXITCODE(end.si_status, 0) : W_EXITCODE(0, end.si_status);
}

// Children that have ended and that nobody waits for: orphans, where this process is the first of a container or a subreaper.
std::vector<pid_t> ended_orphans(pid_t program) {
  std::vector<pid_t> found;
  for (const std::uint32_t each : profiler::children_of(static_cast<std::uint32_t>(getpid()))) {
    const auto process = static_cast<pid_t>(each);
    siginfo_t state = {};
    if (process != program && waitid(P_PID, each, &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        state.si_pid == process)
      found.push_back(process);
  }
  return found;
}

void reap_all(const std::vector<pid_t>& processes) {
  for (const pid_t each : processes) waitpid(each, nullptr, WNOHANG);
}

// Waits for a stop alone: the program may have been killed since.
void take_stop(pid_t child, bool stops_along) {
  siginfo_t state = {};
  if (waitid(P_PID, static_cast<id_t>(child), &state, WSTOPPED | WNOHANG) == 0 && state.si_pid == child &&
      stops_along)
    stop_along(child);
}

}  // namespace

void await_room(const char* root) {
  const timespec pause = to_timespec(0.05);
  for (int tries = 0; tries < 10; ++tries) {
    // Before the look, too: it opens files, which the group pays for.
    nanosleep(&pause, nullptr);
    const os::memory_limits group = os::look_at_memory(root).group;
    if (group.limit == os::unlimited || group.used < os::near(group.limit)) return;
  }
}

foreground_result run_in_foreground(const child_request& request, const foreground_look* each) {
  const held_signals signals(passed_signals());
  foreground_result result;
  const double begin = monotonic_seconds();
  const pid_t child = start_child(request, signals.before());
  if (each != nullptr) prepare_to_rest(child);
  const bool reaps_orphans = each == nullptr || !each->has_children;
  bool has_orphans = true;  // there may be some: a shell that has become tarn may have had children
  double next_look = begin;
  for (;;) {
    siginfo_t signal = {};
    if (each != nullptr && monotonic_seconds() >= next_look) {
      // Those that `look` has seen with their end in /proc.
      const auto ended =
          reaps_orphans && std::exchange(has_orphans, false) ? ended_orphans(child) : std::vector<pid_t>();
      {
        const rest_at_kill resting;
        each->look(child);
      }
      reap_all(ended);
      // Looks that were missed during a stop are not made up for.
      next_look = std::max(next_look + each->interval_seconds, monotonic_seconds());
    }
    // Without a signal the program is looked at as well: what `look` does may have waited for another child's SIGCHLD, and
    // taken the program's; and the end of a traced thread can come after the SIGCHLD.
    const bool is_signalled = wait_for_signal(signals, each != nullptr ? &next_look : nullptr, signal) >= 0;
    if (is_signalled && signal.si_signo != SIGCHLD) {
      forward(signal, child);
      continue;
    }
    has_orphans |= is_signalled;
    if (each == nullptr && std::exchange(has_orphans, false)) reap_all(ended_orphans(child));
    // One SIGCHLD may stand for several changes of state.
    for (siginfo_t state = {}; has_changed(child, state); state = {}) {
      if (!is_end(state)) {
        take_stop(child, each == nullptr || each->stops_along);
        continue;
      }
      result.wall_seconds = monotonic_seconds() - begin;
      if (each != nullptr && state.si_code != CLD_EXITED) await_room();
      // Each end is found here before it is waited for, so `ended` is called for each.
      if (each != nullptr && each->ended) each->ended(wait_status_of(state));
      wait4(child, &result.wait_status, 0, &result.usage);
      return result;
    }
  }
}

}  // namespace tarn::cli
