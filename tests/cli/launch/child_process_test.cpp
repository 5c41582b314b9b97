// SPDX-License-Identifier: MIT
// Programs are started, their output is collected, and their end is passed on.
#include "cli/launch/child_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

child_request shell(const std::string& script) {
  return {.path = "/bin/sh", .arguments = {"sh", "-c", script}, .variables = environment::current()};
}

TEST(child_process, both_outputs_and_the_status_are_collected) {
  const captured_output result = run_captured(shell("read line || echo no input; echo oops >&2; exit 3"), 60);
  EXPECT_EQ(result.output, "no input\n");
  EXPECT_EQ(result.errors, "oops\n");
  EXPECT_EQ(WEXITSTATUS(result.wait_status), 3);
  EXPECT_FALSE(result.timed_out);
}

TEST(child_process, more_than_a_pipe_holds_is_collected) {
  const captured_output result =
      run_captured(shell("head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2"), 60);
  EXPECT_EQ(result.output.size(), 300000U);
  EXPECT_EQ(result.errors.size(), 200000U);
}

TEST(child_process, after_its_time_a_program_is_killed_with_those_that_it_has_started) {
  const double begin = monotonic_seconds();
  const captured_output result = run_captured(shell("echo begun; sleep 100 & sleep 100"), 0.5);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(WTERMSIG(result.wait_status), SIGKILL);
  EXPECT_EQ(result.output, "begun\n");
  EXPECT_LT(monotonic_seconds() - begin, 50);
}

TEST(child_process, closing_its_outputs_does_not_extend_a_programs_time) {
  const double begin = monotonic_seconds();
  EXPECT_TRUE(run_captured(shell("exec >&- 2>&-; sleep 60"), 0.5).timed_out);
  EXPECT_LT(monotonic_seconds() - begin, 50);
}

TEST(child_process, a_program_may_end_after_it_has_closed_its_outputs) {
  const captured_output result = run_captured(shell("exec >&- 2>&-; sleep 0.1; exit 4"), 60);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(WEXITSTATUS(result.wait_status), 4);
}

TEST(child_process, what_cannot_be_started_is_refused_as_a_shell_does) {
  const auto refusal = [](const std::string& path) {
    child_request request = shell("");
    request.path = path;
    return testing_support::refusal_of<cli_error>([&] { run_captured(request, 60); });
  };
  EXPECT_EQ(refusal("/nowhere/at/all"), "127 cannot start /nowhere/at/all: No such file or directory | ");
  EXPECT_EQ(refusal("/"), "126 cannot start /: Permission denied | ");
}

TEST(child_process, what_a_program_leaves_in_its_group_is_killed_after_its_end) {
  int ends[2] = {};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  child_request request = shell("sleep 100 & exit 3");
  request.standard_output = ends[1];  // which the sleeper keeps open
  request.own_group = true;
  pollfd reader = {ends[0], POLLIN, 0};
  {
    const held_signals signals{SIGCHLD};
    running_child child(start_child(request, signals.before()));
    close(ends[1]);
    while (!child.has_ended()) sleep_until_signal(signals, 1);
    EXPECT_EQ(WEXITSTATUS(child.wait_status()), 3);
    EXPECT_GT(child.usage().ru_maxrss, 0);
    EXPECT_EQ(poll(&reader, 1, 0), 0) << "not before";
  }
  EXPECT_EQ(poll(&reader, 1, 0), 1);
  close(ends[0]);
}

TEST(child_process, the_end_by_a_signal_is_told) {
  child_request request = shell("kill -TERM $$");
  request.own_group = true;
  const held_signals signals{SIGCHLD};
  running_child child(start_child(request, signals.before()));
  while (!child.has_ended()) sleep_until_signal(signals, 1);
  EXPECT_TRUE(WIFSIGNALED(child.wait_status()));
  EXPECT_EQ(WTERMSIG(child.wait_status()), SIGTERM);
}

TEST(child_process, a_count_may_begin_before_the_program) {
  child_request request = shell("exit 0");
  std::string before;
  request.before_exec = [&before](pid_t child) {
    before = std::filesystem::read_symlink("/proc/" + std::to_string(child) + "/exe").string();
  };
  const held_signals signals{SIGCHLD};
  EXPECT_EQ(reap(start_child(request, signals.before())), 0);
  EXPECT_EQ(before, std::filesystem::read_symlink("/proc/self/exe").string());
}

TEST(child_process, ends_like_its_child) {
  const auto status_of = [](const std::string& script) {
    return run_captured(shell(script), 60).wait_status;
  };
  const int failed = status_of("exit 3");
  const int killed = status_of("kill -TERM $$");
  EXPECT_EXIT(end_like(failed), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(end_like(killed), testing::KilledBySignal(SIGTERM), "");
}

TEST(child_process, held_signals_wait_and_come_back) {
  signal(SIGCHLD, SIG_IGN);
  sigset_t now = {};
  {
    const held_signals held{SIGUSR1};
    raise(SIGUSR1);
    sigpending(&now);
    EXPECT_EQ(sigismember(&now, SIGUSR1), 1);
    EXPECT_EQ(sigtimedwait(&held.held(), nullptr, nullptr), SIGUSR1);
    EXPECT_EQ(sigismember(&held.before(), SIGUSR1), 0);
    EXPECT_EQ(signal(SIGCHLD, SIG_DFL), SIG_DFL) << "an ignored child's status would be lost";
  }
  sigprocmask(SIG_BLOCK, nullptr, &now);
  EXPECT_EQ(sigismember(&now, SIGUSR1), 0);
  EXPECT_EQ(signal(SIGCHLD, SIG_DFL), SIG_IGN);
}

TEST(child_process, times_are_divided_into_seconds_and_nanoseconds) {
  EXPECT_EQ(to_timespec(2.25).tv_sec, 2);
  EXPECT_EQ(to_timespec(2.25).tv_nsec, 250'000'000);
  EXPECT_EQ(seconds_of({3, 500'000}), 3.5);
}

}  // namespace
}  // namespace tarn::cli
