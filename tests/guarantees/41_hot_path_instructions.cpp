// SPDX-License-Identifier: MIT
// Guarantee 41: malloc(64) and the free of its block, where the thread's magazine serves both, take as many
// instructions as recorded here for this compiler. Counted exactly, by single-stepping a traced child; no other tool is
// needed. A change that lowers a number records the new one; a change that raises it needs a reason.
#include <sys/ptrace.h>
#include <sys/user.h>

#include "inject.hpp"

namespace {

using namespace guarantee;

struct golden {
  int clang_major;  // 0: GCC
  int gcc_major;
  long malloc_steps;
  long free_steps;
};
// x86-64, release build (-O2).
constexpr golden recorded[] = {
    {0, 12, 18, 35},
};

#if defined(__clang__)
constexpr int clang_major = __clang_major__;
constexpr int gcc_major = 0;
#else
constexpr int clang_major = 0;
constexpr int gcc_major = __GNUC__;
#endif

#if defined(__x86_64__)

// The traced child stops at each breakpoint.
inline void breakpoint() { asm volatile("int3" ::: "memory"); }

// The instructions of the empty functions: an xor and a ret; a ret.
constexpr long no_malloc_steps = 2;
constexpr long no_free_steps = 1;
[[gnu::noinline]] void* no_malloc(size_t) { return nullptr; }
[[gnu::noinline]] void no_free(void*) {}
void* (*volatile allocate)(size_t) = nullptr;
void (*volatile release)(void*) = nullptr;
void* volatile block = nullptr;

// Four sections, each between two breakpoints: an empty function, malloc, an empty function, free. The calls before
// them fill the magazine.
int traced() {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return not_checkable;
  raise(SIGSTOP);
  void* blocks[8];
  for (int round = 0; round < 3; ++round) {
    for (void*& b : blocks) b = hide(malloc(64));
    for (void* b : blocks) free(hide(b));
  }
  for (const bool empty : {true, false}) {
    allocate = empty ? no_malloc : malloc;
    breakpoint();
    block = allocate(64);
    breakpoint();
  }
  for (const bool empty : {true, false}) {
    release = empty ? no_free : free;
    breakpoint();
    release(block);
    breakpoint();
  }
  return holds;
}

// Lets the child run to its next breakpoint. Returns false if it has ended.
bool run_to_breakpoint(pid_t child) {
  int status = 0;
  if (ptrace(PTRACE_CONT, child, nullptr, nullptr) != 0 || waitpid(child, &status, 0) != child) return false;
  return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

// The first byte of the instruction that the child executes next.
unsigned char next_byte(pid_t child) {
  user_regs_struct registers{};
  ptrace(PTRACE_GETREGS, child, nullptr, &registers);
  return static_cast<unsigned char>(
      ptrace(PTRACE_PEEKTEXT, child, reinterpret_cast<void*>(registers.rip), nullptr) & 0xff);
}

// Single-steps the child from one breakpoint to the next. Returns the number of steps, -1 on an error.
long steps_in_section(pid_t child) {
  constexpr unsigned char int3 = 0xcc;
  constexpr long most = 100'000;
  if (!run_to_breakpoint(child)) return -1;
  long steps = 0;
  for (int status = 0; next_byte(child) != int3; ++steps) {
    if (steps == most || ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0 ||
        waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
      return -1;
    }
  }
  return run_to_breakpoint(child) ? steps : -1;
}

struct counts {
  long malloc_steps;
  long free_steps;
};

counts count_steps() {
  const pid_t child = fork();
  if (child < 0) skip("fork failed");
  if (child == 0) _exit(traced());
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) skip("a process cannot be traced here");
  long steps[4];
  for (long& section : steps) section = steps_in_section(child);
  kill(child, SIGKILL);
  wait_for(child);
  for (const long section : steps) {
    if (section <= 0) skip("a process cannot be traced step by step here");
  }
  // The instructions around the call are the same for the empty function, so the difference leaves them out.
  return {steps[1] - steps[0] + no_malloc_steps, steps[3] - steps[2] + no_free_steps};
}

#endif

}  // namespace

int main() {
  start();
#if !defined(__x86_64__)
  skip("counted on x86-64 only");
#elif !defined(__OPTIMIZE__)
  skip("recorded for the release build only");
#else
  if (tarn_trim == nullptr) skip("recorded for tarn only");
  const counts now = count_steps();
  measured("malloc(64) %ld instructions, free %ld", now.malloc_steps, now.free_steps);
  for (const golden& one : recorded) {
    if (one.clang_major != clang_major || one.gcc_major != gcc_major) continue;
    TARN_CHECK(now.malloc_steps == one.malloc_steps, "malloc(64) takes %ld instructions, %ld are recorded",
               now.malloc_steps, one.malloc_steps);
    TARN_CHECK(now.free_steps == one.free_steps, "free takes %ld instructions, %ld are recorded",
               now.free_steps, one.free_steps);
    return holds;
  }
  skip("no numbers are recorded for this compiler (%s)", __VERSION__);
#endif
}
