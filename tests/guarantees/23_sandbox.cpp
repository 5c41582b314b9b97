// SPDX-License-Identifier: MIT
// Guarantee 23: tarn works in a seccomp sandbox that allows only memory and thread calls, write and exit. Any
// other call ends the program, and its number is told. Three ways in: the allocator in use by several threads
// before the sandbox closes; never used before, by the program's first thread; never used before, by a new
// one. Built with --as-needed: without libstdc++, whose start-up allocates, nothing uses malloc before main.
#include "failure_workload.hpp"
#include "sandbox.hpp"

namespace {

using namespace guarantee;

// Thread start and end in glibc take the signal mask, robust lists and rseq along with clone.
constexpr long allowed[] = {SYS_mmap,  SYS_munmap,       SYS_mremap,          SYS_madvise,     SYS_mprotect,
                            SYS_brk,   SYS_futex,        SYS_sched_yield,     SYS_clone,       SYS_clone3,
                            SYS_rseq,  SYS_gettid,       SYS_set_robust_list, SYS_exit,        SYS_exit_group,
                            SYS_write, SYS_rt_sigaction, SYS_rt_sigprocmask,  SYS_rt_sigreturn};

void* in_first_new_thread(void*) {
  run_with_threads(refusals::forbidden, 3, 3);
  return nullptr;
}

// A child's heap is its parent's, so each way in needs a process of its own.
int inside(const char* way) {
  const bool used_before = strcmp(way, "used") == 0;
  const bool new_thread = strcmp(way, "thread") == 0;
  if (used_before) run_with_threads(refusals::forbidden, 3, 1);
  close_sandbox(allowed, sandbox_call::prctl_call);
  if (new_thread) {
    int none[1] = {};
    in_threads(in_first_new_thread, none);
  } else {
    run_with_threads(refusals::forbidden, 3, 6);
  }
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) _exit(inside(arguments[1]));
  start();
  const char* const clock = let_sandboxes_read_clock();
  for (const char* way : {"used", "unused", "thread"}) expect_good(run_again(60, way), way);
  measured("no system call beyond %zu allowed ones%s", sizeof allowed / sizeof *allowed, clock);
}
