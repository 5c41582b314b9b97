// SPDX-License-Identifier: MIT
#include "samples/guarded/fault_handler.hpp"

#include <signal.h>
#include <ucontext.h>

#include <cerrno>

#if defined(__x86_64__)
#include "samples/guarded/fault_context_x86_64.hpp"
#else
#include "samples/guarded/fault_context_aarch64.hpp"
#endif
#include "os/own_threads/thread.hpp"
#include "os/report.hpp"
#include "os/syscall.hpp"
#include "samples/guarded/report.hpp"

namespace tarn::fault_handler {

namespace {

constinit std::atomic<const guarded_blocks*> watched{nullptr};

void report(const guarded_blocks& blocks, const siginfo_t& info, const ucontext_t& context) {
  const std::uintptr_t address = address_of(info.si_addr);
  if (info.si_code <= 0) return;
  if (!blocks.contains(address)) {
    text_buffer<256> line;
    if (describe_other(address, line)) os::write_line(line);
    return;
  }
  const guarded_slot* const slot = blocks.nearest(address);
  if (slot == nullptr) return;
  guarded_report::write_fault(*slot, {address, kind_of(context), origin_of(context)});
}

// Restores the default action if a handler of the program has called this one; if the kernel called it, it has restored
// the action already (SA_RESETHAND). False: the system refuses.
bool reset_action(int signal) {
  struct sigaction now {};
  if (sigaction(signal, nullptr, &now) != 0) return false;
  const bool is_default = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
  if (is_default) return true;
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  return sigaction(signal, &standard, nullptr) == 0;
}

// Sends the same signal with the same information to this thread. It stays pending until the handler has returned, and
// is delivered before the interrupted instruction continues. Needed because a signal sent by a process, or forced by
// the kernel for a broken signal frame, would not be raised again.
bool send_again(int signal, const siginfo_t& info) {
  return os::system_call(SYS_rt_tgsigqueueinfo, os::system_call(SYS_getpid), os::system_call(SYS_gettid),
                         signal, &info) == 0;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const guarded_blocks* const blocks = watched.load(std::memory_order_relaxed);
  if (blocks != nullptr) report(*blocks, *info, *static_cast<const ucontext_t*>(context));
  if (!reset_action(signal) || !send_again(signal, *info)) {
    // For example, a seccomp filter forbids it. SIGSEGV is blocked here, so the kernel ends the process at another
    // fault.
    volatile int* const nowhere = nullptr;
    *nowhere = 0;  // NOLINT(clang-analyzer-core.NullDereference): the fault is the purpose
  }
  errno = error;
}

}  // namespace

void install(const guarded_blocks& blocks) {
  if (watched.load(std::memory_order_relaxed) != nullptr || os::in_sandbox()) return;
  if (watched.exchange(&blocks, std::memory_order_relaxed) != nullptr) return;
  const int error = errno;
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
      now.sa_handler == SIG_DFL) {
    struct sigaction mine {};
    mine.sa_sigaction = on_fault;
    mine.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
    sigemptyset(&mine.sa_mask);
    sigaction(SIGSEGV, &mine, nullptr);
  }
  errno = error;
}

}  // namespace tarn::fault_handler
