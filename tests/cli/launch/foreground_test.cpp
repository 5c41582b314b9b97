// SPDX-License-Identifier: MIT
// run_in_foreground() with shell scripts: `ended` is called exactly once per program.
#include "cli/launch/foreground.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../../folder_test.hpp"
#include "cli/launch/child_process.hpp"
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

// A folder with the files of a control group that is full, or is not.
class await_room_test : public testing_support::folder_test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = folder_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  double seconds_with(const std::string& used) {
    write("/proc/self/cgroup", "0::/a\n");
    write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("/sys/fs/cgroup/a/memory.max", "1000000\n");
    write("/sys/fs/cgroup/a/memory.current", used + "\n");
    const double begin = monotonic_seconds();
    await_room(folder_.c_str());
    return monotonic_seconds() - begin;
  }
};

TEST_F(await_room_test, only_while_the_group_is_full) {
  EXPECT_LT(seconds_with("500000"), 0.4);
  EXPECT_GT(seconds_with("990000"), 0.4);
}

}  // namespace
}  // namespace tarn::cli
