// SPDX-License-Identifier: MIT
// call_filter: seccomp filters, for the programs that make calls fail, trap them or forbid them.
// Thread safety: a filter holds for the calling thread and the threads and processes that it starts, for good.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace guarantee {

// False: the system refuses filters.
template <size_t count>
bool install_filter(sock_filter (&rules)[count]) {
  const sock_fprog program{count, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The call of this number ends as `action` says, a value of linux/seccomp.h; all others go on.
inline bool filter_call(long number, unsigned action) {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  return install_filter(rules);
}

}  // namespace guarantee
