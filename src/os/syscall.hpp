// SPDX-License-Identifier: MIT
// system_call: system calls without libc. They leave errno alone and need no thread-local data, so they may be made
// inside free(), in the background thread and in a forked child. The result is the kernel's: -errno on failure.
#pragma once

#include <sys/syscall.h>

#include <type_traits>

#include "base/architecture.hpp"

namespace tarn::os {

template <class Value>
long argument(Value value) {
  if constexpr (std::is_pointer_v<Value>) {
    return reinterpret_cast<long>(value);
  } else {
    return static_cast<long>(value);
  }
}

// The arguments are numbers and pointers.
template <class... Arguments>
long system_call(long number, Arguments... arguments) {
  return arch::call_kernel(number, argument(arguments)...);
}

// Whether a result, which may be an address, is -errno.
constexpr bool is_error(long result) { return result < 0 && result >= -4095; }

}  // namespace tarn::os
