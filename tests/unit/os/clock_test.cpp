// SPDX-License-Identifier: MIT
// The clocks of src/os: they agree with libc's, and reading them makes no system call.
#include "os/clock.hpp"

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "base/compiler.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

std::int64_t ns_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

TEST(clock, agrees_with_libc) {
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t before = ns_of(CLOCK_MONOTONIC);
    const std::int64_t now = now_ns();
    const std::int64_t us = now_us();
    const std::int64_t after = ns_of(CLOCK_MONOTONIC);
    ASSERT_LE(before, now);
    ASSERT_LE(now / 1000, us);
    ASSERT_LE(us, after / 1000);
  }
  const std::int64_t before = ns_of(CLOCK_MONOTONIC_COARSE) / 1000000;
  const std::int64_t now = now_ms();
  EXPECT_LE(before, now);
  EXPECT_LE(now, ns_of(CLOCK_MONOTONIC_COARSE) / 1000000);
}

TEST(clock, the_time_of_a_thread_is_what_it_worked) {
  const std::int64_t asleep = thread_us();
  const timespec pause{0, 50'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_LT(thread_us() - asleep, 40'000);
  const std::int64_t at_work = thread_us();
  const std::int64_t end = ns_of(CLOCK_THREAD_CPUTIME_ID) + 3'000'000;
  while (ns_of(CLOCK_THREAD_CPUTIME_ID) < end) continue;
  EXPECT_GE(thread_us() - at_work, 2000);
}

// Reads a clock in a child under seccomp's strict mode, in which the kernel kills the process at any system call except
// read, write and exit. Returns the child's wait status.
template <class Function>
int status_without_system_calls(Function read_clock) {
  const pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) system_call(SYS_exit, 77);
    system_call(SYS_exit, read_clock() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(clock, makes_no_system_call) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer's runtime makes calls of its own";
  const int of_libc = status_without_system_calls([] {
    timespec now{};
    return clock_gettime(CLOCK_MONOTONIC_COARSE, &now) == 0;
  });
  if (WIFEXITED(of_libc) && WEXITSTATUS(of_libc) == 77) GTEST_SKIP() << "no seccomp";
  if (of_libc != 0)
    GTEST_SKIP() << "libc's clock makes a system call here too: the kernel's vDSO has no clock";
  EXPECT_EQ(status_without_system_calls([] { return now_ms() > 0; }), 0);
}

}  // namespace
}  // namespace tarn::os
