// SPDX-License-Identifier: MIT
// libc_code: where the C library of a process has the instructions by which remote_thread makes calls. Plain data; any
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "profiler/attach/remote_module.hpp"

namespace tarn::profiler {

struct libc_code {
  std::uint64_t system_call = 0;  // followed by a return
  std::uint64_t sigreturn = 0;
};
// Throws attach_error if there are none.
libc_code find_libc_code(pid_t process, const remote_module& libc);

}  // namespace tarn::profiler
