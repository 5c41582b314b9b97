// SPDX-License-Identifier: MIT
// Guarantee 47: guarded blocks do not change how signals reach the program. A fault at another address, or a SIGSEGV
// that is sent, ends a program as without tarn. A handler of the program gets every fault, also those on guarded
// blocks, with the address of the access and on its alternate stack, also after a report. A forked child has guarded
// blocks of its own and reports them. A signal that the kernel forces ends the program, also under a filter that
// forbids the calls of tarn's handler. A program finds the default action when it starts, or SIG_IGN if it was started
// with that.
#include <ucontext.h>

#include "call_filter.hpp"
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t size = 64;

// Writes one byte; the compiler does not see to which block.
[[gnu::noipa]] void write_to(volatile char* block, size_t offset) { block[offset] = 1; }

// Returns a guarded block whose end is at a guard page: a child that writes the next byte ends by SIGSEGV.
char* find_guarded() {
  for (int i = 0; i < 2000; ++i) {
    auto* const block = static_cast<char*>(malloc(size));
    if ((reinterpret_cast<uintptr_t>(block) + size) % 4096 != 0) continue;
    const child_result result = run_in_child(20, [block] {
      const int nothing = open("/dev/null", O_WRONLY);
      dup2(nothing, 2);
      write_to(block, size);
      return holds;
    });
    if (!result.exited && result.signal == SIGSEGV) return block;
  }
  fail("no guarded block among 2000");
}

void expect_end(const char* what, const char* wanted_text, int signal, int (*body)()) {
  char text[8192];
  const child_result result = run_and_hear(20, text, body);
  if (signal == 0) {
    TARN_CHECK(result.good(), "%s: signal %d, exit %d: %s", what, result.signal, result.code, text);
  } else {
    TARN_CHECK(!result.exited && result.signal == signal, "%s: exited %d, signal %d: %s", what, result.exited,
               result.signal, text);
  }
  const bool reported = strncmp(text, "tarn: ", 6) == 0;
  TARN_CHECK(reported == (*wanted_text != '\0') && strstr(text, wanted_text) != nullptr, "%s: says: %s", what,
             text);
}

// ---- without a handler of the program's ----

char* guarded = nullptr;
char* volatile nowhere = nullptr;

int fault_elsewhere() {
  write_to(nowhere, 0);
  return broken;
}
int sent() {
  kill(getpid(), SIGSEGV);
  usleep(1000000);
  return broken;
}
int overflow() {
  write_to(guarded, size);
  return broken;
}
int use_after_free() {
  free(guarded);
  write_to(guarded, 1);
  return broken;
}

// ---- with one ----

alignas(16) char handler_stack[64 * kib];
volatile uintptr_t seen_address = 0;
volatile bool on_own_stack = false;
struct sigaction before_ours {};

// A handler that recovers: makes the page accessible, so that the access succeeds.
void recover(int, siginfo_t* info, void*) {
  const char here = 0;
  seen_address = reinterpret_cast<uintptr_t>(info->si_addr);
  on_own_stack = &here >= handler_stack && &here < handler_stack + sizeof handler_stack;
  const uintptr_t page = seen_address & ~uintptr_t{4095};
  if (mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE) != 0) _exit(broken);
}

// Passes the fault on to the handler before it, as Go does with faults that are not in its own code.
void ask_the_one_before(int signal, siginfo_t* info, void* context) {
  if ((before_ours.sa_flags & SA_SIGINFO) != 0) {
    before_ours.sa_sigaction(signal, info, context);
  } else {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
  }
}

void install(void (*handler)(int, siginfo_t*, void*), int flags) {
  const stack_t own{handler_stack, 0, sizeof handler_stack};
  sigaltstack(&own, nullptr);
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGSEGV, &action, &before_ours);
}

int recovered_overflow() {
  install(recover, SA_ONSTACK);
  write_to(guarded, size);
  if (seen_address != reinterpret_cast<uintptr_t>(guarded + size) || !on_own_stack) return broken;
  // The handler stays installed while the program allocates, and gets a second fault.
  for (int i = 0; i < 1000; ++i) free(malloc(size));
  write_to(guarded - 4096, 0);
  return seen_address == reinterpret_cast<uintptr_t>(guarded - 4096) ? holds : broken;
}
int passed_on_overflow() {
  install(ask_the_one_before, SA_ONSTACK);
  write_to(guarded, size);
  return broken;
}
int passed_on_elsewhere() {
  install(ask_the_one_before, 0);
  write_to(nowhere, 0);
  return broken;
}
int ignored() {
  signal(SIGSEGV, SIG_IGN);
  write_to(guarded, size);
  return broken;
}

// ---- signals that do not come again by themselves, calls that are refused ----

// Destroys the signal frame, so that the kernel cannot restore it and forces SIGSEGV.
int broken_frame() {
  struct sigaction action {};
  action.sa_sigaction = [](int, siginfo_t*, void* context) {
#if defined(__x86_64__)
    static_cast<ucontext_t*>(context)->uc_mcontext.fpregs = reinterpret_cast<decltype(mcontext_t::fpregs)>(8);
#else
    static_cast<ucontext_t*>(context)->uc_mcontext.pstate = ~0ULL;
#endif
  };
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR1, &action, nullptr);
  raise(SIGUSR1);
  return broken;
}

void forbid(long call) {
  TARN_CHECK(filter_call(call, SECCOMP_RET_ERRNO | EPERM), "no filter: errno %d", errno);
}
int fault_without_sigaction() {
  forbid(SYS_rt_sigaction);
  return fault_elsewhere();
}
int fault_without_queue() {
  forbid(SYS_rt_tgsigqueueinfo);
  return fault_elsewhere();
}
int sent_without_queue() {
  forbid(SYS_rt_tgsigqueueinfo);
  return sent();
}

// ---- a program that starts ----

// Reads the signal's action, as runtimes do when they start.
int as_started(void (*wanted)(int)) {
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_handler != wanted) return broken;
  for (int i = 0; i < 1000; ++i) free(malloc(size));
  if (wanted == SIG_DFL) return holds;
  return sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_handler == wanted ? holds : broken;
}

int restarted(const char* mode, const char* interval) {
  setenv("TARN_GUARDED", interval, 1);
  execl("/proc/self/exe", "47_fault_signals", mode, nullptr);
  return broken;
}
int started_with_default() { return restarted("default", "65536"); }
int started_ignoring() {
  signal(SIGSEGV, SIG_IGN);
  return restarted("ignored", "10");
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return as_started(strcmp(arguments[1], "default") == 0 ? SIG_DFL : SIG_IGN);
  start();
  if (!system_probes::faults_can_be_sent_again()) skip("%s", system_probes::no_sending);
  nowhere = static_cast<char*>(mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  guarded = find_guarded();
  expect_end("a fault elsewhere", "", SIGSEGV, fault_elsewhere);
  expect_end("SIGSEGV by kill", "", SIGSEGV, sent);
  expect_end("an overflow", "tarn: overflow: ", SIGSEGV, overflow);
  expect_end("a use after free", "tarn: use after free: ", SIGSEGV, use_after_free);
  expect_end("a handler that recovers", "", 0, recovered_overflow);
  expect_end("a handler that calls the one before", "tarn: overflow: ", SIGSEGV, passed_on_overflow);
  expect_end("the same for a fault elsewhere", "", SIGSEGV, passed_on_elsewhere);
  expect_end("a fault while SIGSEGV is ignored", "", SIGSEGV, ignored);
  expect_end("a broken signal frame", "", SIGSEGV, broken_frame);
  expect_end("a fault, rt_sigaction refused", "", SIGSEGV, fault_without_sigaction);
  expect_end("a fault, rt_tgsigqueueinfo refused", "", SIGSEGV, fault_without_queue);
  expect_end("SIGSEGV by kill, rt_tgsigqueueinfo refused", "", SIGSEGV, sent_without_queue);
  expect_end("the action of a new program", "", 0, started_with_default);
  expect_end("SIG_IGN of the one that started it", "", 0, started_ignoring);
  measured("14 ways to end or to go on as without guarded blocks");
}
