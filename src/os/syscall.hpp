// SPDX-License-Identifier: MIT
// system_call: system calls without libc. They leave errno alone and need no thread-local data, so they may be made
// inside free(), in the background thread and in a forked child. The result is the kernel's: -errno on failure.
#pragma once

#include <sys/syscall.h>

#include <type_traits>

namespace tarn::os {

#if defined(__x86_64__)

inline long call_kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result = 0;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

#elif defined(__aarch64__)

inline long call_kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
  return x0;
}

#else
#error "tarn runs on x86-64 and aarch64"
#endif

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
  return call_kernel(number, argument(arguments)...);
}

// Whether a result, which may be an address, is -errno.
constexpr bool is_error(long result) { return result < 0 && result >= -4095; }

}  // namespace tarn::os
