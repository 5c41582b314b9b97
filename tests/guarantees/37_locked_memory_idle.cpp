// SPDX-License-Identifier: MIT
// Guarantee 37: memory that the system cannot take back causes no work. After mlockall, a process that has freed 80 MB
// and sleeps has only its own thread, so it makes no system calls. And if the program has locked blocks (mlock) and
// frees them without unlocking, their memory still goes back and no longer counts as locked.
#include <dirent.h>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t freed = 80 * mib;
size_t tasks_at_start = 0;  // one, plus the threads of an emulator

size_t count_tasks() {
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) skip("/proc/self/task cannot be read");
  size_t count = 0;
  while (const dirent* one = readdir(tasks)) count += one->d_name[0] != '.';
  closedir(tasks);
  return count;
}

void fill_and_free(size_t block) {
  constexpr size_t most = 1024;
  static void* blocks[most];
  const size_t count = freed / block < most ? freed / block : most;
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = take(block);
    TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) fails", block);
    memset(blocks[i], 1, block);
  }
  for (size_t i = 0; i < count; ++i) give(blocks[i]);
}

int sleep_locked() {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) skip("mlockall: %s (see ulimit -l)", strerror(errno));
  fill_and_free(100 * kib);
  fill_and_free(900 * kib);
  fill_and_free(20 * mib);
  // For a few periods of decay the background thread may still try.
  for (int i = 0; i < 60 && count_tasks() > tasks_at_start; ++i) sleep_ms(100);
  const int watched = long_run() ? 100 : 20;
  for (int i = 0; i < watched; ++i) {
    TARN_CHECK(count_tasks() == tasks_at_start,
               "mlockall, 80 MB freed: a thread of the allocator keeps running while the program sleeps");
    sleep_ms(100);
  }
  return holds;
}

int forget_to_unlock() {
  constexpr size_t count = 6;
  constexpr size_t size = 300 * kib;
  void* blocks[count];
  const size_t before = proc_bytes("/proc/self/status", "VmLck:");
  for (void*& block : blocks) {
    block = take(size);
    if (mlock(block, size) != 0) skip("mlock: %s (see ulimit -l)", strerror(errno));
  }
  void* const whole = take(freed);
  memset(whole, 1, freed);
  mlock(whole, mib);
  const size_t most = resident();
  give(whole);
  for (void* block : blocks) give(block);
  size_t locked = 0;
  size_t now = 0;
  for (int i = 0; i < 60; ++i) {
    sleep_ms(100);
    locked = growth(before, proc_bytes("/proc/self/status", "VmLck:"));
    now = resident();
    if (locked == 0 && now + freed / 2 < most) break;
  }
  TARN_CHECK(now + freed / 2 < most,
             "%.0f of %.0f MiB are still resident where a part of the freed memory was locked", in_mib(now),
             in_mib(most));
  TARN_CHECK(locked == 0, "%zu KiB of freed memory are still locked", locked / kib);
  return holds;
}

}  // namespace

int main() {
  start();
  tasks_at_start = count_tasks();
  expect_good(run_in_child(100, forget_to_unlock), "mlock and free");
  expect_good(run_in_child(100, sleep_locked), "mlockall and sleep");
  measured("locked: one thread; freed: nothing locked");
  return holds;
}
