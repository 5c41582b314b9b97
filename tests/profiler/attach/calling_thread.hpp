// SPDX-License-Identifier: MIT
// calling_thread: a thread of a child that is stopped and can make calls, and what its tests have in common.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "profiler/attach/remote_thread.hpp"
#include "profiler/attach/safe_point.hpp"
#include "tests/profiler/attach/child_process.hpp"

namespace tarn::profiler {

using shared_state = child_process::shared_state;

constexpr double long_enough = 10;

inline std::uint64_t address(auto* function) { return reinterpret_cast<std::uint64_t>(function); }

// A thread of a child that is stopped and can make calls; its end lets it go.
class calling_thread : public remote_thread {
 public:
  explicit calling_thread(pid_t process, call_limits limits = {}) : remote_thread(process, process) {
    if (!stop(long_enough)) throw std::runtime_error("it does not stop");
    begin_calls(code(), std::move(limits));
  }
  static const libc_code& code() {
    static const libc_code found = [] {
      for (const remote_module& one : modules_of_process(getpid()))
        if (is_libc(one)) return find_libc_code(getpid(), one);
      return libc_code();
    }();
    return found;
  }
};

class remote_thread_test : public testing::Test {
 protected:
  void SetUp() override {
    if (ptrace_is_refused()) GTEST_SKIP() << "ptrace is refused";
  }
};

inline void overwrite_registers() {
  errno = EXDEV;
#if defined(__x86_64__)
  asm volatile(
      "pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n pcmpeqd %%xmm2, %%xmm2\n pcmpeqd %%xmm15, %%xmm15\n"
      "mov $-1, %%rcx\n mov $-1, %%r11" ::
          : "xmm0", "xmm1", "xmm2", "xmm15", "rcx", "r11");
#endif
}

// Computes in registers that functions may overwrite, and looks whether anything does.
inline void watch_registers(shared_state& shared) {
  for (;; shared.rounds.fetch_add(1)) {
    double value = 1.5;
    std::uint64_t number = 77;
#if defined(__x86_64__)
    asm volatile(
        "movsd %0, %%xmm1\n mov %1, %%r11\n mov $10000, %%rcx\n"
        "1: dec %%rcx\n jnz 1b\n"
        "movsd %%xmm1, %0\n mov %%r11, %1"
        : "+m"(value), "+m"(number)
        :
        : "xmm1", "r11", "rcx");
#endif
    if (value != 1.5 || number != 77) shared.wrong.store(true);
  }
}

inline shared_state* signals_go_to;

}  // namespace tarn::profiler
