// SPDX-License-Identifier: MIT
#include "cli/launch/foreground.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tarn::cli {

namespace {

// The signal came from a process by kill or sigqueue, but not from the program itself: its kill(0, ...) has already
// reached it, and passing that on would never end.
bool must_be_forwarded(const siginfo_t& signal, pid_t child) {
  return signal.si_code <= 0 && signal.si_pid != child;
}

// The program was stopped. If the terminal did it, this process stops too, so that the shell treats the job as
// stopped; when the shell continues the job, so does the program.
void stop_along(int number, pid_t child) {
  if (number != SIGTSTP && number != SIGTTIN && number != SIGTTOU) return;
  raise(SIGSTOP);
  kill(child, SIGCONT);
}

// `until`: on the monotonic clock; null: no time limit.
int wait_for_signal(const held_signals& signals, const double* until, siginfo_t& signal) {
  if (until == nullptr) return sigwaitinfo(&signals.held(), &signal);
  const timespec wait = to_timespec(std::max(0.0, *until - monotonic_seconds()));
  return sigtimedwait(&signals.held(), &signal, &wait);
}

void tell_of_end(pid_t child, const std::function<void(int)>& ended) {
  siginfo_t state = {};
  if (waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      state.si_pid != child)
    return;
  ended(state.si_code == CLD_EXITED ? W_EXITCODE(state.si_status, 0) : W_EXITCODE(0, state.si_status));
}

}  // namespace

foreground_result run_in_foreground(const child_request& request, const foreground_look* each) {
  const held_signals signals{SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                             SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
  foreground_result result;
  const double begin = monotonic_seconds();
  const pid_t child = start_child(request, signals.before());
  double next_look = begin;
  for (;;) {
    siginfo_t signal = {};
    if (each != nullptr && monotonic_seconds() >= next_look) {
      each->look(child);
      // Looks that were missed during a stop are not made up for.
      next_look = std::max(next_look + each->interval_seconds, monotonic_seconds());
    }
    if (wait_for_signal(signals, each != nullptr ? &next_look : nullptr, signal) < 0) continue;
    if (signal.si_signo != SIGCHLD) {
      if (must_be_forwarded(signal, child)) kill(child, signal.si_signo);
      continue;
    }
    if (each != nullptr && each->ended) tell_of_end(child, each->ended);
    // One SIGCHLD may stand for several changes of state.
    for (;;) {
      int status = 0;
      rusage usage = {};
      const pid_t changed = wait4(child, &status, WNOHANG | WUNTRACED, &usage);
      if (changed != child) break;
      if (WIFSTOPPED(status)) {
        stop_along(WSTOPSIG(status), child);
        continue;
      }
      result.wall_seconds = monotonic_seconds() - begin;
      result.wait_status = status;
      result.usage = usage;
      return result;
    }
  }
}

}  // namespace tarn::cli
