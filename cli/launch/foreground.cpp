// SPDX-License-Identifier: MIT
#include "cli/launch/foreground.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tarn::cli {

namespace {

// The terminal signals its foreground process group, which the program may have left. A signal by kill or sigqueue is passed on
// unless the program itself sent it: its kill(0, ...) has already reached it, and passing that on would never end.
bool must_be_forwarded(const siginfo_t& signal, pid_t child) {
  if (signal.si_code > 0) return getpgid(child) != getpgrp();
  return signal.si_pid != child;
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

// Waits for a stop alone: the program may have been killed since.
void take_stop(pid_t child) {
  siginfo_t state = {};
  if (waitid(P_PID, static_cast<id_t>(child), &state, WSTOPPED | WNOHANG) == 0 && state.si_pid == child)
    stop_along(state.si_status & 0xff, child);
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
    // One SIGCHLD may stand for several changes of state.
    for (siginfo_t state = {}; has_changed(child, state); state = {}) {
      if (!is_end(state)) {
        take_stop(child);
        continue;
      }
      // Each end is found here before it is waited for, so `ended` is called for each.
      if (each != nullptr && each->ended) each->ended(wait_status_of(state));
      result.wall_seconds = monotonic_seconds() - begin;
      wait4(child, &result.wait_status, 0, &result.usage);
      return result;
    }
  }
}

}  // namespace tarn::cli
