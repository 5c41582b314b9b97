// SPDX-License-Identifier: MIT
// The two ways in which libc lets a program install a seccomp filter. Nothing is recorded: the recorder learns that it
// must not make system calls of its own any more. Thread safety: any thread and any signal handler.
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "profiler/record/own_calls.hpp"
#include "profiler/record/real_functions.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler::recorder;
using word = unsigned long;

namespace {

// Holds the mark while the kernel is asked, and takes it back where no filter was installed.
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
  // relaxed: every thread finds the same
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

// libc declares both with an ellipsis. They are defined with the most arguments that they may have: on both architectures
// those come in the same places, and what the caller has not passed is passed on unread.
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
