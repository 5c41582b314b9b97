// SPDX-License-Identifier: MIT
// Guarantee 23: tarn works in a seccomp sandbox that allows only memory and thread calls, write and exit. Any other
// call ends the program with a line that names its number. Three cases: several threads have used the allocator before
// the sandbox closes; the first allocation is made in the sandbox by the first thread; or by a new thread. Linked with
// --as-needed: without libstdc++, which allocates at start-up, no malloc comes before main.
#include "failure_workload.hpp"
#include "sandbox.hpp"

namespace {

using namespace guarantee;

// To start and end threads, glibc needs clone, the signal mask, robust lists and rseq.
constexpr long allowed[] = {SYS_mmap,  SYS_munmap,       SYS_mremap,          SYS_madvise,     SYS_mprotect,
                            SYS_brk,   SYS_futex,        SYS_sched_yield,     SYS_clone,       SYS_clone3,
                            SYS_rseq,  SYS_gettid,       SYS_set_robust_list, SYS_exit,        SYS_exit_group,
                            SYS_write, SYS_rt_sigaction, SYS_rt_sigprocmask,  SYS_rt_sigreturn};

void* in_first_new_thread(void*) {
  run_with_threads(refusals::forbidden, 3, 3);
  return nullptr;
}

// A forked child inherits a used heap, so each case is a newly executed program.
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
