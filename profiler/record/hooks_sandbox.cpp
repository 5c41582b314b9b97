// SPDX-License-Identifier: MIT
// Hooks of the two libc functions by which a program can install a seccomp filter, or turn the processor's counter off.
// They record nothing: they tell the recorder to make no more system calls of its own, or to report nothing more.
// Thread safety: any thread and any signal handler.
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "profiler/record/forward.hpp"
#include "profiler/record/own_calls.hpp"
#include "profiler/record/recorder.hpp"
#include "profiler/record/recorder_state.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;
using kernel_word = unsigned long;

namespace {

// Sets has_filter before the kernel is called, and clears it again if no filter was installed.
class filter_mark {
 public:
  explicit filter_mark(bool asked) : set_(asked && !in_sandbox() && is_own_memory()) {
    if (set_) has_filter.store(true, std::memory_order_relaxed);  // see its definition
  }
  // A positive result is a descriptor (SECCOMP_FILTER_FLAG_NEW_LISTENER), or the thread that could not follow.
  void finish(long result, bool listens) {
    if (set_ && result != 0 && (result < 0 || !listens)) has_filter.store(false, std::memory_order_relaxed);
  }

 private:
  bool set_;
};

silence silence_of_prctl(int option, kernel_word value) {
  if (option == PR_SET_SECCOMP && value == SECCOMP_MODE_STRICT) return silence::strict_mode;
  return option == PR_SET_TSC && value == PR_TSC_SIGSEGV ? silence::no_counter : silence::none;
}

silence silence_of(long number, kernel_word a, kernel_word b) {
  if (number == SYS_prctl) return silence_of_prctl(static_cast<int>(a), b);
  return number == SYS_seccomp && a == SECCOMP_SET_MODE_STRICT ? silence::strict_mode : silence::none;
}

// A call after which the recorder may have to be silent. Meanwhile this thread records nothing: not what a signal
// handler allocates right after the kernel has done it.
class last_words {
 public:
  explicit last_words(silence because)
      : because_(because != silence::none && (in_sandbox() || is_own_memory()) ? because : silence::none) {
    if (because_ == silence::none) return;
    self.busy = calling;
    self.timed_in = 0;
  }
  void finish(long result) {
    if (because_ == silence::none) return;
    if (result == 0) fall_silent(because_);
    self.busy = before_;
  }

 private:
  silence because_;
  std::uint8_t before_ = self.busy;
};

}  // namespace

// libc declares both functions with an ellipsis. Here they are defined with the largest number of arguments: on
// both architectures variadic arguments are passed in the same places, and arguments that the caller has not passed
// are forwarded without being read.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)
extern "C" {

int tarn_recorder_prctl(int option, kernel_word a, kernel_word b, kernel_word c, kernel_word d) noexcept
    __asm__("prctl");
int tarn_recorder_prctl(int option, kernel_word a, kernel_word b, kernel_word c, kernel_word d) noexcept {
  last_words last(silence_of_prctl(option, a));
  filter_mark mark(option == PR_SET_SECCOMP);
  const int result = forward(real.prctl, SYS_prctl, option, a, b, c, d);
  mark.finish(result, false);
  last.finish(result);
  return result;
}

long tarn_recorder_syscall(long number, kernel_word a, kernel_word b, kernel_word c, kernel_word d,
                           kernel_word e, kernel_word f) noexcept __asm__("syscall");
long tarn_recorder_syscall(long number, kernel_word a, kernel_word b, kernel_word c, kernel_word d,
                           kernel_word e, kernel_word f) noexcept {
  const bool by_seccomp =
      number == SYS_seccomp && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER);
  last_words last(silence_of(number, a, b));
  filter_mark mark(by_seccomp || (number == SYS_prctl && a == PR_SET_SECCOMP));
  const long result = real.syscall != nullptr ? real.syscall(number, a, b, c, d, e, f)
                                              : as_libc(tarn::os::system_call(number, a, b, c, d, e, f));
  mark.finish(result, by_seccomp && (b & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0);
  last.finish(result);
  return result;
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
