// SPDX-License-Identifier: MIT
// Guarantee 33: a program that is executed under a seccomp filter of its launcher (a service manager, an online judge)
// is killed by it only where it would be killed under libc's malloc, too. Each filter kills the process at one system
// call. The program has one thread, frees memory, sleeps and frees memory again. Under a filter that allows everything,
// the memory of a program that has started threads goes back while it sleeps.
#include "call_filter.hpp"
#include "tasks.hpp"

namespace {

using namespace guarantee;

struct system_call_name {
  long number;
  const char* name;
};

// A process of one thread makes none of these calls under libc's malloc.
constexpr system_call_name forbidden[] = {
    {SYS_clone, "clone"},
    {SYS_getpid, "getpid"},
    {SYS_gettid, "gettid"},
    {SYS_tgkill, "tgkill"},
    {SYS_futex, "futex"},
    {SYS_prctl, "prctl"},
    {SYS_capget, "capget"},
    {SYS_sysinfo, "sysinfo"},
    {SYS_membarrier, "membarrier"},
    {SYS_getpriority, "getpriority"},
    {SYS_get_robust_list, "get_robust_list"},
    {SYS_rt_sigaction, "rt_sigaction"},
    {SYS_rt_sigprocmask, "rt_sigprocmask"},
    {SYS_sched_getaffinity, "sched_getaffinity"},
    {SYS_sched_getscheduler, "sched_getscheduler"},
};

// Runs this program under a filter that kills it at the call `number`; -1: at none.
child_result run_under_filter(long number, const char* what) {
  const pid_t child = fork();
  if (child < 0) skip("fork failed");
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (!filter_call(number, SECCOMP_RET_KILL_PROCESS)) _exit(not_checkable);
    execl("/proc/self/exe", "program", what, static_cast<char*>(nullptr));
    _exit(not_checkable);
  }
  return wait_for(child);
}

int use_memory() {
  for (int round = 0; round < 2; ++round) {
    free_megabytes();
    sleep_ms(60);
  }
  return holds;
}

int sleep_after_threads() {
  pthread_join(start_thread(
                   [](void*) -> void* {
                     free(hide(malloc(100)));
                     return nullptr;
                   },
                   nullptr),
               nullptr);
  const size_t before = rss_bytes();
  free_megabytes();
  constexpr size_t little = 5 * mib;
  for (int i = 0; i < 500 && rss_bytes() > before + little; ++i) sleep_ms(10);
  TARN_CHECK(rss_bytes() <= before + little, "%.1f of 19 MiB left 5 s after they were freed",
             in_mib(growth(before, rss_bytes())));
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) _exit(strcmp(arguments[1], "threads") == 0 ? sleep_after_threads() : use_memory());
  start();
  setenv("TARN_DECAY_MS", "40", 1);
  for (const system_call_name& call : forbidden)
    expect_good(run_under_filter(call.number, "memory"), call.name);
  expect_good(run_under_filter(-1, "threads"), "a program with threads");
  measured("%zu calls forbidden one by one", sizeof forbidden / sizeof *forbidden);
}
