// SPDX-License-Identifier: MIT
// Guarantee 47: guarded blocks leave the program's signals as they are. A fault elsewhere, or a SIGSEGV that is sent,
// ends a program as without tarn; a handler that the program installs sees every fault, also those on guarded blocks,
// with the place of the access, and its alternate stack; a report does not keep it from being called. A forked child
// has guarded blocks of its own, and reports them.
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t size = 64;

// The compiler is not to know what lies there.
[[gnu::noipa]] void write_to(volatile char* block, size_t offset) { block[offset] = 1; }

// One where a write behind its end is a fault, in a child.
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
  fail("no guarded block in 2000");
}

void expect_end(const char* what, const char* wanted_text, int signal, int (*body)()) {
  int ends[2];
  TARN_CHECK(pipe(ends) == 0, "pipe failed");
  const child_result result = run_in_child(20, [&] {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], 2);
    return body();
  });
  close(ends[1]);
  char text[8192];
  const ssize_t got = read(ends[0], text, sizeof text - 1);
  text[got > 0 ? got : 0] = '\0';
  close(ends[0]);
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

// As a program that recovers: the page becomes accessible, and the access goes on.
void recover(int, siginfo_t* info, void*) {
  const char here = 0;
  seen_address = reinterpret_cast<uintptr_t>(info->si_addr);
  on_own_stack = &here >= handler_stack && &here < handler_stack + sizeof handler_stack;
  const uintptr_t page = seen_address & ~uintptr_t{4095};
  if (mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE) != 0) _exit(broken);
}

// As Go does with faults that are not in its own code.
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
  // It stays the program's: allocating and a second fault change nothing.
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

}  // namespace

int main() {
  start();
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
  measured("8 ways to end or to go on as without guarded blocks");
}
