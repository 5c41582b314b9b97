// SPDX-License-Identifier: MIT
#include "os/thread.hpp"

#include <linux/sched.h>
#include <signal.h>

#include <atomic>
#include <cstdint>

#include "base/units.hpp"
#include "os/futex.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

constexpr std::size_t stack_bytes = 64 * kib;
// Thread-local data of libraries lies below the thread pointer (x86-64) or above it (aarch64); the thread
// reads none of it, but code compiled with stack protection or checks may look there.
constexpr std::size_t thread_data_bytes = 16 * kib;

// Not touched, and so not backed, in a process that never starts the thread.
alignas(separation) char stack[stack_bytes];
alignas(separation) char thread_data[2 * thread_data_bytes];

// The kernel clears it, and wakes who waits, when the thread has left its stack.
futex_word alive{0};

thread_function thread_body = nullptr;

extern "C" [[noreturn, gnu::used]] void tarn_background_thread_main() {
  thread_body();
  for (;;) system_call(SYS_exit, 0);
}

constexpr long clone_flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                             CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID;

// The child starts on an empty stack, so the call and all after it in the child is assembly.
long clone_thread(void* stack_top, void* thread_pointer, futex_word* clear_at_exit) {
#if defined(__x86_64__)
  long result = 0;
  register long r10 asm("r10") = reinterpret_cast<long>(clear_at_exit);
  register long r8 asm("r8") = reinterpret_cast<long>(thread_pointer);
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "call tarn_background_thread_main\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(SYS_clone), "D"(clone_flags), "S"(stack_top), "d"(0), "r"(r10), "r"(r8)
      : "rcx", "r11", "memory");
  return result;
#else
  register long x8 asm("x8") = SYS_clone;
  register long x0 asm("x0") = clone_flags;
  register long x1 asm("x1") = reinterpret_cast<long>(stack_top);
  register long x2 asm("x2") = 0;
  register long x3 asm("x3") = reinterpret_cast<long>(thread_pointer);
  register long x4 asm("x4") = reinterpret_cast<long>(clear_at_exit);
  asm volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "bl tarn_background_thread_main\n\t"
      "brk 1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory", "cc", "x30");
  return x0;
#endif
}

}  // namespace

bool start_background_thread(thread_function body) {
  thread_body = body;
  // The thread inherits the mask: with every signal blocked, no handler of the program ever runs on it.
  std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all), reinterpret_cast<long>(&before),
              sizeof all);
  char* const thread_pointer = thread_data + thread_data_bytes;
  // The x86-64 ABI has the thread pointer point at itself.
  *reinterpret_cast<void**>(thread_pointer) = thread_pointer;
  alive.store(1, std::memory_order_relaxed);
  const long thread = clone_thread(stack + stack_bytes, thread_pointer, &alive);
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&before), 0, sizeof before);
  if (thread < 0) alive.store(0, std::memory_order_relaxed);
  return thread > 0;
}

// acquire: what the thread did on its stack is over before the next one uses it. The kernel is the partner; it wakes
// sleepers on the word as if it were shared between processes.
void wait_for_background_thread() {
  while (alive.load(std::memory_order_acquire) != 0) {
    system_call(SYS_futex, reinterpret_cast<long>(&alive), FUTEX_WAIT, 1, 0);
  }
}

void forget_background_thread() { alive.store(0, std::memory_order_relaxed); }

}  // namespace tarn::os
