// SPDX-License-Identifier: MIT
// sandbox: a seccomp filter that allows a list of system calls. Any other call ends the program with a line that names
// its number. For the guarantees on sandboxes (23, 33 and 48).
// Owner: each program includes this header once. Thread safety: the filter holds for the calling thread and the threads
// and processes that it starts.
#pragma once

#include <time.h>

#include "call_filter.hpp"
#include "inject.hpp"

namespace guarantee {

inline void tell_call(int, siginfo_t* info, void*) {
  fail("system call %d inside the sandbox", info->si_syscall);
}

enum class sandbox_call { prctl_call, seccomp_call };

inline constexpr const char* clock_variable = "SANDBOX_WITH_CLOCK";

// Whether reading a clock is a system call here, as under User Mode Linux or with vdso=0. Found by a child that may
// only read, write and exit (strict mode) and reads a clock.
inline bool clock_needs_call() {
  const pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(not_checkable);
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    syscall(SYS_exit, holds);
  }
  return wait_for(child).signal == SIGKILL;
}

// Call this before starting programs that close a sandbox. Where reading a clock needs clock_gettime, it makes
// close_sandbox() allow that call: without it no promise could be made. Returns the text to append to what the test
// prints.
inline const char* let_sandboxes_read_clock() {
  if (!clock_needs_call()) return "";
  setenv(clock_variable, "yes", 1);
  return "; clock_gettime is allowed as well, because reading a clock needs it here";
}

// From now on allows only the calls of `allowed`, and clock_gettime if let_sandboxes_read_clock() found it necessary.
template <size_t calls>
void close_sandbox(const long (&allowed)[calls], sandbox_call way) {
  struct sigaction on_call {};
  on_call.sa_sigaction = tell_call;
  on_call.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &on_call, nullptr);
  const long last = getenv(clock_variable) != nullptr ? SYS_clock_gettime : allowed[0];
  sock_filter program[calls + 4];
  program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (size_t i = 0; i <= calls; ++i) {
    program[i + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(i < calls ? allowed[i] : last),
                              static_cast<unsigned char>(calls + 1 - i), 0);
  }
  program[calls + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  program[calls + 3] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{calls + 4, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      (way == sandbox_call::seccomp_call ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                                         : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) != 0) {
    skip("no seccomp filter: %s", strerror(errno));
  }
}

}  // namespace guarantee
