// SPDX-License-Identifier: MIT
// Guarantee 32: if the program has started no threads, children made without fork handlers (_Fork, clone, vfork) have
// an intact heap, and the memory that they free goes back to the system, in the child and in the parent.
#include <sched.h>
#include <sys/syscall.h>

#include "tasks.hpp"

namespace {

using namespace guarantee;

enum class way { fork_alone, clone_by_number, clone_call };

pid_t copy_process(way how) {
  if (how == way::fork_alone) return _Fork();
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

void expect_memory_returned(size_t before, const char* what) {
  for (int i = 0; i < 500; ++i) {
    if (rss_bytes() < before + much / 4) return;
    // Where there is no background thread, memory goes back when the program's threads call the allocator.
    free(hide(malloc(2 * mib)));
    sleep_ms(10);
  }
  fail("%s: 5 s after 64 MiB were freed, %.1f MiB of them are resident", what,
       in_mib(growth(before, rss_bytes())));
}

// The body of a child: uses the heap, which must be intact.
int use_heap(void*) {
  alarm(20 * slowness());  // ends a child that waits for a lock for ever
  for (size_t size = 8; size < 4 * mib; size += size / 2 + 8) free(hide(malloc(size)));
  return holds;
}

void use_heap_in_child(way how) {
  alignas(16) static char stack[256 * kib];
  const pid_t child =
      how == way::clone_call ? clone(use_heap, stack + sizeof stack, SIGCHLD, nullptr) : copy_process(how);
  if (child == 0) _exit(use_heap(nullptr));
  if (child < 0) skip("no child: %s", strerror(errno));
  expect_good(wait_for(child), "a child without fork handlers");
}

// Frees many spans that are not neighbours, so that the background thread takes and releases its locks for milliseconds
// of each period, and makes children at that time.
int use_heap_in_children(int rounds) {
  constexpr size_t spans = 6000;
  constexpr double periods = 0.06;
  static void* blocks[spans];
  for (void*& block : blocks) block = malloc(300 * kib);
  size_t children = 0;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < spans; i += 2) free(blocks[i]);
    for (const double until = wall_seconds() + periods; wall_seconds() < until;) {
      for (const way how : {way::fork_alone, way::clone_by_number, way::clone_call}) {
        use_heap_in_child(how);
        ++children;
      }
    }
    for (size_t i = 0; i < spans; i += 2) blocks[i] = malloc(300 * kib);
  }
  measured("%zu children", children);
  return holds;
}

int return_in_child(way how) {
  free_megabytes();
  const pid_t child = copy_process(how);
  if (child == 0) {
    const size_t before = rss_bytes();
    free_megabytes(much);
    expect_memory_returned(before, "a child without fork handlers");
    _exit(holds);
  }
  const child_result result = wait_for(child);
  return result.exited ? result.code : broken;
}

int return_after_vfork() {
  const size_t before = rss_bytes();
  const pid_t child = vfork();
  if (child == 0) {
    free_megabytes(much);
    _exit(holds);
  }
  if (!wait_for(child).good()) return broken;
  expect_memory_returned(before, "memory freed by a vfork child");
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) {
    if (strcmp(arguments[1], "heap") == 0) _exit(use_heap_in_children(long_run() ? 2000 : 40));
    if (strcmp(arguments[1], "_Fork") == 0) _exit(return_in_child(way::fork_alone));
    if (strcmp(arguments[1], "clone") == 0) _exit(return_in_child(way::clone_by_number));
    if (strcmp(arguments[1], "vfork") == 0) _exit(return_after_vfork());
    _exit(not_checkable);
  }
  start();
  // With short periods the background thread is often at work when a child is made.
  setenv("TARN_DECAY_MS", "20", 1);
  for (const char* what : {"heap", "_Fork", "clone", "vfork"})
    expect_good(run_again(long_run() ? 3600 : 60, what), what);
  measured("children by _Fork, clone and vfork: heap intact, memory returned");
}
