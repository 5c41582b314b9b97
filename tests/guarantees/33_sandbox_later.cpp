// SPDX-License-Identifier: MIT
// Guarantee 33: a program may at any time enter a sandbox that allows only what libc's malloc needs, also after it has
// freed memory and slept. The filter ends the process at any other call. It is installed by prctl and by the system
// call seccomp. In seccomp's strict mode, which allows only read, write, exit and sigreturn, blocks that fit into memory
// that the process has can be taken and freed, whether or not some are chosen to be guarded or profiled, and after the
// decay time of free memory. It takes the processor's counter away, too; so does PR_SET_TSC.
#include <linux/futex.h>

#include "sandbox.hpp"
#include "tasks.hpp"

namespace {

using namespace guarantee;

constexpr long allowed[] = {SYS_mmap,  SYS_munmap, SYS_mremap, SYS_mprotect,   SYS_madvise,     SYS_brk,
                            SYS_futex, SYS_write,  SYS_exit,   SYS_exit_group, SYS_rt_sigreturn};

// Sleeps by a call that the sandbox allows.
void rest(long milliseconds) {
  unsigned word = 0;
  const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1000000};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit);
}

// Allocates, grows and frees small and large blocks.
void use_memory() {
  constexpr size_t count = 400;
  void* blocks[count] = {};
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = hide(malloc(16 + i * i));
    TARN_CHECK(blocks[i] != nullptr, "malloc fails inside the sandbox");
    memset(blocks[i], 1, 16 + i * i);
  }
  for (size_t i = 0; i < count; i += 2) {
    void* const grown = hide(realloc(blocks[i], 32 * (i + 1) * (i + 1)));
    TARN_CHECK(grown != nullptr, "realloc fails inside the sandbox");
    blocks[i] = grown;
  }
  for (void* block : blocks) free(block);
}

// Takes and frees blocks that a warm heap has; some of them, and one that stays, are guarded.
void use_warm_memory(int rounds) {
  static void* blocks[400] = {};
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < 400; ++i) {
      free(blocks[i]);
      blocks[i] = hide(malloc(16 + i % 8 * 16));
    }
  }
}

// Takes and frees longer blocks for at least `milliseconds`. Reads the clock without a system call or the counter.
void use_pages(long milliseconds) {
  timespec begin;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &begin);
  do {
    void* blocks[8] = {};
    for (size_t i = 0; i < 8; ++i) {
      blocks[i] = hide(i % 2 == 0 ? malloc(5000 + i * 9000) : calloc(1, 5000 + i * 9000));
    }
    for (void* block : blocks) free(block);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < milliseconds);
}

int in_strict_mode(bool by_number) {
  use_warm_memory(50);
  use_pages(20);
  free_megabytes();
  const long refused = by_number ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, nullptr)
                                 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  if (refused != 0) return not_checkable;
  use_warm_memory(200);
  use_pages(150);
  syscall(SYS_exit, holds);
  return broken;
}

int without_counter() {
  use_memory();
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return not_checkable;
  use_memory();
  free_megabytes();
  rest(100);
  use_memory();
  return holds;
}

int inside(const char* way) {
  if (strncmp(way, "strict", 6) == 0) return in_strict_mode(strcmp(way, "strict by number") == 0);
  if (strcmp(way, "no counter") == 0) return without_counter();
  use_memory();
  free_megabytes();
  rest(500);  // with the decay time that main() sets, long enough for the background thread to start and end
  if (strcmp(way, "busy") == 0) free_megabytes_and_expect_thread();
  close_sandbox(allowed, strcmp(way, "number") == 0 ? sandbox_call::seccomp_call : sandbox_call::prctl_call);
  for (int round = 0; round < 5; ++round) {
    use_memory();
    free_megabytes();
    rest(60);
  }
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) _exit(inside(arguments[1]));
  start();
  setenv("TARN_DECAY_MS", "40", 1);
  const char* const clock = let_sandboxes_read_clock();
  for (const char* way : {"rested", "busy", "number"}) expect_good(run_again(60, way), way);
  setenv("TARN_GUARDED", "50", 1);
  for (const char* profile : {"off", "2000"}) {
    setenv("TARN_PROFILE", profile, 1);
    for (const char* way : {"strict", "strict by number"}) expect_good(run_again(60, way), way);
  }
#if defined(__x86_64__)
  expect_good(run_again(60, "no counter"), "without the counter");
#endif
  measured("no system call beyond %zu allowed ones%s", sizeof allowed / sizeof *allowed, clock);
}
