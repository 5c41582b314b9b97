// SPDX-License-Identifier: MIT
#include "foreground.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace tarn::cli {

namespace {

// Came from a process by kill or sigqueue, and not from the program itself, whose kill(0, …) has
// reached it already: passing that on would send it round in circles.
bool must_be_forwarded(const siginfo_t& signal, pid_t child) {
  return signal.si_code <= 0 && signal.si_pid != child;
}

// The program was stopped. If by its terminal, this process stops too, so that the shell takes the
// job as stopped; when the shell continues the job, the program goes on as well.
void stop_along(int number, pid_t child) {
  if (number != SIGTSTP && number != SIGTTIN && number != SIGTTOU) return;
  raise(SIGSTOP);
  kill(child, SIGCONT);
}

}  // namespace

foreground_result run_in_foreground(const child_request& request) {
  const held_signals signals{SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                             SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
  foreground_result result;
  const double begin = monotonic_seconds();
  const pid_t child = start_child(request, signals.before());
  for (;;) {
    siginfo_t signal = {};
    if (sigwaitinfo(&signals.held(), &signal) < 0) continue;
    if (signal.si_signo != SIGCHLD) {
      if (must_be_forwarded(signal, child)) kill(child, signal.si_signo);
      continue;
    }
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
