// SPDX-License-Identifier: MIT
// Guarantee 32: a child process whose first thread ends by itself (the function given to clone() returns, or the thread
// makes the system call exit) ends at once, with the same status as under libc's malloc. clone and clone3 refuse the
// same arguments as there.
#include <sched.h>
#include <sys/syscall.h>

#include "tasks.hpp"

namespace {

using namespace guarantee;

constexpr int own_status = 7;

int return_from_clone(void*) {
  free_megabytes_and_expect_thread();
  return own_status;
}

pid_t child_of_clone() {
  alignas(16) static char stack[512 * kib];
  return clone(return_from_clone, stack + sizeof stack, SIGCHLD, nullptr);
}

// A child with its own memory (no CLONE_VM); the parent waits until it ends.
pid_t child_of_waiting_clone() {
  alignas(16) static char stack[512 * kib];
  return clone(return_from_clone, stack + sizeof stack, CLONE_VFORK | SIGCHLD, nullptr);
}

pid_t child_of_exit_call() {
  const pid_t child = fork();
  if (child != 0) return child;
  free_megabytes_and_expect_thread();
  syscall(SYS_exit, own_status);
  _exit(broken);
}

void expect_end(pid_t (*make)(), const char* what) {
  const double before = wall_seconds();
  const pid_t child = make();
  if (child < 0) skip("%s: %s", what, strerror(errno));
  const child_result result = wait_for(child);
  const double seconds = wall_seconds() - before;
  TARN_CHECK(result.exited && result.code == own_status, "%s: ends with %s %d, not with status %d", what,
             result.exited ? "status" : "signal", result.exited ? result.code : result.signal, own_status);
  TARN_CHECK(seconds < 2.0 * slowness(), "%s: ends after %.1f s", what, seconds);
}

void expect_refused(long result, int error, const char* what) {
  TARN_CHECK(result == -1 && errno == error, "%s: result %ld, %s", what, result, strerror(errno));
}

}  // namespace

int main() {
  start();
  if (count_tasks() != 1) skip("/proc/self/task shows threads that the program has not started");
  expect_end(child_of_clone, "clone(), whose function returns");
  expect_end(child_of_waiting_clone, "clone(CLONE_VFORK), whose function returns");
  expect_end(child_of_exit_call, "fork and the system call exit");
  alignas(16) static char stack[64 * kib];
  expect_refused(clone(nullptr, stack + sizeof stack, SIGCHLD, nullptr), EINVAL,
                 "clone() without a function");
  expect_refused(clone(return_from_clone, nullptr, SIGCHLD, nullptr), EINVAL, "clone() without a stack");
  constexpr size_t arguments_bytes = 88;
  errno = 0;
  const long bad = syscall(SYS_clone3, uintptr_t{8}, arguments_bytes);
  if (errno != ENOSYS) expect_refused(bad, EFAULT, "clone3 with arguments at address 8");
  measured("three children end with their status; three calls refused");
}
