// SPDX-License-Identifier: MIT
// run_in_foreground() with shell scripts: `ended` is called exactly once per program.
#include "cli/launch/foreground.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch/environment.hpp"

namespace tarn::cli {
namespace {

child_request request_of(const std::string& script) {
  return {.path = "/bin/sh", .arguments = {"sh", "-c", script}, .variables = environment::current()};
}

TEST(foreground, ended_is_called_once_with_the_status) {
  int told = 0;
  foreground_look each;
  each.look = [](pid_t) {};
  for (const auto& [script, status] : {std::pair{"exit 3", W_EXITCODE(3, 0)}, {"kill -9 $$", SIGKILL}}) {
    int seen = -1;
    each.ended = [&](int wait_status) {
      ++told;
      seen = wait_status;
    };
    EXPECT_EQ(run_in_foreground(request_of(script), &each).wait_status, status);
    EXPECT_EQ(seen, status);
  }
  EXPECT_EQ(told, 2);
}

// Each further SIGCHLD makes this process check the program's state, so also just before the program ends.
TEST(foreground, ended_is_called_amid_other_signals) {
  const pid_t tested = getpid();
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) kill(tested, SIGCHLD);
  }
  int told = 0;
  foreground_look each{.look = [](pid_t) {}, .ended = [&](int) { ++told; }};
  constexpr int runs = 60;
  for (int run = 0; run < runs; ++run) run_in_foreground(request_of("exit 0"), &each);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_EQ(told, runs);
}

TEST(foreground, a_program_that_stops_itself_continues_at_sigcont) {
  int told = 0;
  foreground_look each{.look = [](pid_t) {}, .ended = [&](int) { ++told; }};
  const std::string script = "(sleep 0.05; kill -CONT $$) & kill -STOP $$; wait; exit 7";
  EXPECT_EQ(run_in_foreground(request_of(script), &each).wait_status, W_EXITCODE(7, 0));
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace tarn::cli
