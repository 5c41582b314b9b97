// SPDX-License-Identifier: MIT
// sandbox: a seccomp filter that allows a list of system calls; any other one ends the program, and its number is told.
// For the guarantees on sandboxes (lines 23 and 33).
// Owner: each program includes it once. Thread safety: the filter is the calling thread's and its children's.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "inject.hpp"

namespace guarantee {

inline void tell_call(int, siginfo_t* info, void*) {
  fail("system call %d inside the sandbox", info->si_syscall);
}

enum class sandbox_call { prctl_call, seccomp_call };

// Only the calls of `allowed` from now on.
template <size_t calls>
void close_sandbox(const long (&allowed)[calls], sandbox_call way) {
  struct sigaction on_call {};
  on_call.sa_sigaction = tell_call;
  on_call.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &on_call, nullptr);
  sock_filter program[calls + 3];
  program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (size_t i = 0; i < calls; ++i) {
    program[i + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(allowed[i]),
                              static_cast<unsigned char>(calls - i), 0);
  }
  program[calls + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  program[calls + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{calls + 3, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      (way == sandbox_call::seccomp_call ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                                         : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) != 0) {
    skip("no seccomp filter: %s", strerror(errno));
  }
}

}  // namespace guarantee
