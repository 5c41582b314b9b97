// SPDX-License-Identifier: MIT
// Guarantee 33: the allocator's thread calls no function that the program may have replaced, inherits neither the
// scheduling policy nor the processors of the thread that started it, and does not keep running because of memory that
// the system does not take back. The program replaces clock_gettime, as libraries that simulate time do.
#include <sched.h>

#include <atomic>

#include "tasks.hpp"

namespace {

using namespace guarantee;

long first_thread = 0;
thread_local char own_data[64 * kib];

}  // namespace

// Writes to thread-local data, which a thread that is unknown to libc does not have.
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    struct timespec* out) noexcept {
  if (first_thread != 0 && syscall(SYS_gettid) != first_thread) {
    fail("a thread of the allocator calls the program's clock_gettime");
  }
  own_data[sizeof own_data - 1] = 1;
  return static_cast<int>(syscall(SYS_clock_gettime, clock, out));
}

namespace {

int use_replaced_clock() {
  first_thread = syscall(SYS_gettid);
  for (int round = 0; round < 10; ++round) {
    free_megabytes_and_expect_thread();
    sleep_ms(30);
  }
  return holds;
}

void expect_scheduling(long thread, const cpu_set_t& processors) {
  cpu_set_t its;
  TARN_CHECK(sched_getscheduler(static_cast<pid_t>(thread)) == SCHED_OTHER,
             "a thread of the allocator runs under the real-time policy of the thread that started it");
  TARN_CHECK(
      sched_getaffinity(static_cast<pid_t>(thread), sizeof its, &its) == 0 && CPU_EQUAL(&its, &processors),
      "a thread of the allocator has the processors of the thread that started it");
}

// The thread that starts the allocator's thread is bound to one processor and, if the user may, has a real-time policy.
std::atomic<size_t> own_tasks{0};

int use_pinned_thread() {
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) return not_checkable;
  const pthread_t thread = start_thread(
      [](void*) -> void* {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        const sched_param priority{1};
        sched_setscheduler(0, SCHED_FIFO, &priority);
        free_megabytes();
        own_tasks = count_tasks();
        return nullptr;
      },
      nullptr);
  pthread_join(thread, nullptr);
  TARN_CHECK(tarn_trim == nullptr || own_tasks == 3, "%zu threads after 19 MiB were freed, not 3",
             own_tasks.load());
  const long self = syscall(SYS_gettid);
  for_each_task([&](long task) {
    if (task != self) expect_scheduling(task, all);
  });
  return holds;
}

// The system does not take back locked pages.
int use_locked_memory() {
  constexpr size_t size = 2 * mib;
  void* const block = hide(malloc(size));
  if (block == nullptr || mlock(block, size) != 0) return not_checkable;
  free(block);
  free_megabytes_and_expect_thread();
  sleep_ms(2000);
  // From here on there is no background thread, and so no system call that the program does not make itself.
  for (int i = 0; i < 50; ++i) {
    TARN_CHECK(count_tasks() == 1, "a thread of the allocator keeps running for locked memory");
    sleep_ms(20);
  }
  munlock(block, size);
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) {
    if (strcmp(arguments[1], "clock") == 0) _exit(use_replaced_clock());
    if (strcmp(arguments[1], "pinned") == 0) _exit(use_pinned_thread());
    _exit(use_locked_memory());
  }
  start();
  setenv("TARN_DECAY_MS", "40", 1);
  for (const char* what : {"clock", "pinned", "locked"}) {
    const child_result result = run_again(60, what);
    const bool checked = !result.exited || result.code != not_checkable;
    if (checked) expect_good(result, what);
    measured("%s: %s", what, checked ? "holds" : "cannot be checked here");
  }
}
