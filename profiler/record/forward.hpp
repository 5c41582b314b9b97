// SPDX-License-Identifier: MIT
// forward: how the hook of a system call goes on to what the program would have called: libc's function, or that of a library
// which stands in front of it and may count on being called. Before this is known, to the kernel.
#pragma once

#include <errno.h>

#include <type_traits>

#include "os/syscall.hpp"

namespace tarn::profiler::recorder {

// The kernel's answer as libc gives it.
inline long as_libc(long result) {
  if (!os::is_error(result)) return result;
  errno = static_cast<int>(-result);
  return -1;
}

// `number`: of the system call that `next` makes, with the same arguments.
template <class result, class... parameters>
result forward(result (*next)(parameters...), long number, std::type_identity_t<parameters>... arguments) {
  if (next != nullptr) return next(arguments...);
  const long answer = as_libc(os::system_call(number, arguments...));
  if constexpr (std::is_pointer_v<result>) {
    return reinterpret_cast<result>(answer);
  } else {
    return static_cast<result>(answer);
  }
}

}  // namespace tarn::profiler::recorder
