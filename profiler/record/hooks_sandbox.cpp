// SPDX-License-Identifier: MIT
// Hooks of the two libc functions by which a program can install a seccomp filter. They record nothing: they tell
// the recorder to make no more system calls of its own. Thread safety: any thread and any signal handler.
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "profiler/record/own_calls.hpp"
#include "profiler/record/real_functions.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler::recorder;
using word = unsigned long;

namespace {

// Sets has_filter before the kernel is called, and clears it again if no filter was installed.
class filter_mark {
 public:
  explicit filter_mark(bool asked) : set_(asked && !in_sandbox() && is_own_memory()) {
    if (set_) has_filter.store(true, std::memory_order_relaxed);  // see its definition
  }
  // A positive result is a descriptor (SECCOMP_FILTER_FLAG_NEW_LISTENER), or the thread that could not follow.
  void settle(long result, bool listens) {
    if (set_ && result != 0 && (result < 0 || !listens)) has_filter.store(false, std::memory_order_relaxed);
  }

 private:
  bool set_;
};

template <class Function>
Function* next_of(const char* name, std::atomic<Function*>& kept) {
  // relaxed: every thread finds the same address
  Function* found = kept.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(find_next(name));
    kept.store(found, std::memory_order_relaxed);
  }
  return found;
}

using prctl_function = int(int, word, word, word, word);
using syscall_function = long(long, word, word, word, word, word, word);
std::atomic<prctl_function*> real_prctl{nullptr};
std::atomic<syscall_function*> real_syscall{nullptr};

}  // namespace

// libc declares both functions with an ellipsis. Here they are defined with the largest number of arguments: on
// both architectures variadic arguments are passed in the same places, and arguments that the caller has not passed
// are forwarded without being read.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)
extern "C" {

int tarn_recorder_prctl(int option, word a, word b, word c, word d) noexcept __asm__("prctl");
int tarn_recorder_prctl(int option, word a, word b, word c, word d) noexcept {
  prctl_function* const behind = next_of("prctl", real_prctl);
  if (behind == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  filter_mark mark(option == PR_SET_SECCOMP);
  const int result = behind(option, a, b, c, d);
  mark.settle(result, false);
  return result;
}

long tarn_recorder_syscall(long number, word a, word b, word c, word d, word e, word f) noexcept
    __asm__("syscall");
long tarn_recorder_syscall(long number, word a, word b, word c, word d, word e, word f) noexcept {
  syscall_function* const behind = next_of("syscall", real_syscall);
  if (behind == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  const bool by_seccomp =
      number == SYS_seccomp && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER);
  filter_mark mark(by_seccomp || (number == SYS_prctl && a == PR_SET_SECCOMP));
  const long result = behind(number, a, b, c, d, e, f);
  mark.settle(result, by_seccomp && (b & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0);
  return result;
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
