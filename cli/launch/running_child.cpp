// SPDX-License-Identifier: MIT
#include "cli/launch/running_child.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

namespace tarn::cli {

namespace {

// How often `each_second` is called. Each call takes some microseconds of this process, not of the measured one.
constexpr double seconds_between_looks = 1;

}  // namespace

bool running_child::has_ended() {
  if (!ended_ && wait4(process_, &wait_status_, WNOHANG, &usage_) == process_) ended_ = true;
  return ended_;
}

void running_child::terminate() const {
  if (!ended_) kill(process_, SIGTERM);
}

void running_child::kill_group() {
  if (ended_) return;
  kill(-process_, SIGKILL);
  while (wait4(process_, &wait_status_, 0, &usage_) < 0 && errno == EINTR) {
  }
  ended_ = true;
}

void sleep_until_signal(const held_signals& signals, double seconds) {
  const timespec wait = to_timespec(std::max(0.0, seconds));
  const int signal = sigtimedwait(&signals.held(), nullptr, &wait);
  if (signal > 0 && signal != SIGCHLD) throw interrupted{signal};
}

bool wait_for_end(running_child& child, double deadline, const held_signals& signals,
                  const std::function<void()>& each_second) {
  double next_look = monotonic_seconds() + seconds_between_looks;
  while (!child.has_ended()) {
    const double now = monotonic_seconds();
    if (deadline > 0 && now >= deadline) return false;
    if (now >= next_look) {
      each_second();
      next_look = now + seconds_between_looks;
    }
    sleep_until_signal(signals, std::min(next_look, deadline > 0 ? deadline : next_look) - now);
  }
  return true;
}

}  // namespace tarn::cli
