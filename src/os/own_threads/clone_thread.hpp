// SPDX-License-Identifier: MIT
// clone_thread: starts a thread of the engine by clone(). The new thread runs tarn_engine_thread_main(which)
// (thread.cpp), which is called by name, so that no pointer to it is stored in memory.
// Owner: thread.cpp. Thread safety: any thread that has claimed the stack.
#pragma once

#include <linux/sched.h>

#include <atomic>

#include "os/futex.hpp"
#include "os/syscall.hpp"

namespace tarn::os {

inline constexpr long clone_flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                    CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;

// The kernel writes the thread id to *number before the call returns. When the thread has left its stack, the kernel
// clears *alive and wakes a sleeper. Returns the thread id, or -errno. The child starts on an empty stack, so the call
// and everything after it in the child is assembly.
inline long clone_thread(void* stack_top, void* thread_pointer, std::atomic<int>* number, futex_word* alive,
                         long which) {
#if defined(__x86_64__)
  long result = 0;
  register long r10 asm("r10") = reinterpret_cast<long>(alive);
  register long r8 asm("r8") = reinterpret_cast<long>(thread_pointer);
  register long r9 asm("r9") = which;  // no argument of clone; the child finds it there
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r9, %%rdi\n\t"
      "call tarn_engine_thread_main\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(SYS_clone), "D"(clone_flags), "S"(stack_top), "d"(number), "r"(r10), "r"(r8), "r"(r9)
      : "rcx", "r11", "memory");
  return result;
#else
  register long x8 asm("x8") = SYS_clone;
  register long x0 asm("x0") = clone_flags;
  register long x1 asm("x1") = reinterpret_cast<long>(stack_top);
  register long x2 asm("x2") = reinterpret_cast<long>(number);
  register long x3 asm("x3") = reinterpret_cast<long>(thread_pointer);
  register long x4 asm("x4") = reinterpret_cast<long>(alive);
  register long x5 asm("x5") = which;  // no argument of clone; the child finds it there
  asm volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x5\n\t"
      "bl tarn_engine_thread_main\n\t"
      "brk 1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
      : "memory", "cc", "x30");
  return x0;
#endif
}

}  // namespace tarn::os
