// SPDX-License-Identifier: MIT
// readable_word: whether the kernel can read a word of this process's memory.
// Thread safety: any thread, and in a signal handler. It leaves errno and the signal mask alone. Cost: a system call.
#pragma once

#include <errno.h>

#include <cstdint>

#include "os/syscall.hpp"

namespace tarn::os {

enum class word_state : std::uint8_t {
  readable,
  unreadable,
  unknown,  // a seccomp filter refuses the system call
};

// Whether the 8 bytes at `address` can be read. With an invalid first argument, rt_sigprocmask reads its second
// argument and then fails with EINVAL, or with EFAULT if it cannot be read.
inline word_state ask_for_word(std::uintptr_t address) {
  constexpr long no_way = -1;
  const long result = system_call(SYS_rt_sigprocmask, no_way, address, 0, sizeof(std::uint64_t));
  return result == -EINVAL   ? word_state::readable
         : result == -EFAULT ? word_state::unreadable
                             : word_state::unknown;
}

}  // namespace tarn::os
