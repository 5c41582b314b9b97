// SPDX-License-Identifier: MIT
// All threads of a process stand still while they are looked at, and go on afterwards.
#include "profiler/collect/stopped_process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tarn::profiler {
namespace {

// A child with two threads, which ends with status 7 when it gets SIGUSR1.
class child_of_two_threads {
 public:
  child_of_two_threads() {
    int ends[2] = {};
    EXPECT_EQ(pipe(ends), 0);
    id_ = fork();
    if (id_ == 0) {
      alarm(60);
      signal(SIGUSR1, [](int) { _exit(7); });
      std::thread([] { pause(); }).detach();
      (void)!write(ends[1], "x", 1);
      for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
  ~child_of_two_threads() {
    if (has_ended_) return;
    kill(id_, SIGKILL);
    status_within(1000);
  }
  child_of_two_threads(const child_of_two_threads&) = delete;
  child_of_two_threads& operator=(const child_of_two_threads&) = delete;

  pid_t id() const { return id_; }
  // Its status, or the number of the signal that ended it; -1: it has not ended within the time.
  int status_within(int milliseconds) {
    for (int waited = 0; waited < milliseconds; ++waited) {
      int status = 0;
      has_ended_ = waitpid(id_, &status, WNOHANG) == id_;
      if (has_ended_) return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
      usleep(1000);
    }
    return -1;
  }

 private:
  pid_t id_ = -1;
  bool has_ended_ = false;
};

TEST(stopped_process, no_thread_runs_until_its_end) {
  child_of_two_threads child;
  {
    const stopped_process stopped(child.id());
    if (stopped.problem().find("traced") != std::string::npos) GTEST_SKIP() << stopped.problem();
    ASSERT_EQ(stopped.problem(), "");
    ASSERT_EQ(stopped.threads().size(), 2U);
    for (const stopped_process::thread& each : stopped.threads()) {
      EXPECT_NE(each.stack_pointer, 0U);
      EXPECT_EQ(std::count(each.registers.begin(), each.registers.end(), each.stack_pointer), 1);
    }
    kill(child.id(), SIGUSR1);
    EXPECT_EQ(child.status_within(50), -1);
  }
  EXPECT_EQ(child.status_within(30'000), 7) << "the signal that came meanwhile is delivered";
}

// A thread of it cannot be detached any more, and would keep the process from ending for its parent.
TEST(stopped_process, a_process_that_is_killed_meanwhile_ends) {
  child_of_two_threads child;
  {
    const stopped_process stopped(child.id());
    if (!stopped.problem().empty()) GTEST_SKIP() << stopped.problem();
    kill(child.id(), SIGKILL);
  }
  EXPECT_EQ(child.status_within(10'000), SIGKILL);
}

TEST(stopped_process, a_process_that_is_gone) {
  EXPECT_EQ(stopped_process(0x7ffffffe).problem(), "the process has ended");
}

}  // namespace
}  // namespace tarn::profiler
