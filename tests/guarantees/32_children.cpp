// SPDX-License-Identifier: MIT
// Guarantee 32: children that are made without fork handlers (_Fork, clone, vfork) have a whole heap if the program has no
// threads of its own, and what they free goes back to the system, in the child and in the parent.
#include <sched.h>
#include <sys/syscall.h>

#include "tasks.hpp"

namespace {

using namespace guarantee;

constexpr size_t much = 64 * mib;

enum class way { fork_alone, clone_by_number, clone_call };

pid_t copy_process(way how) {
  if (how == way::fork_alone) return _Fork();
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

void expect_memory_returned(size_t before, const char* what) {
  for (int i = 0; i < 500; ++i) {
    if (rss_bytes() < before + much / 4) return;
    // Where the program's own threads return memory they do so when they come by.
    free(hide(malloc(2 * mib)));
    sleep_ms(10);
  }
  fail("%s: %.1f MiB more than before 5 s after they were freed", what, in_mib(growth(before, rss_bytes())));
}

void take_and_free() {
  constexpr size_t size = 300 * kib;
  constexpr size_t count = much / size;
  static void* blocks[count];
  for (void*& block : blocks) {
    block = hide(malloc(size));
    if (block == nullptr) skip("no memory");
    memset(block, 1, size);
  }
  for (void* block : blocks) free(block);
}

// The body of a child that is to find a whole heap.
int use_heap(void*) {
  alarm(20 * slowness());  // a lock that is taken for ever
  for (size_t size = 8; size < 4 * mib; size += size / 2 + 8) free(hide(malloc(size)));
  return holds;
}

void use_whole_heap(way how) {
  alignas(16) static char stack[256 * kib];
  const pid_t child =
      how == way::clone_call ? clone(use_heap, stack + sizeof stack, SIGCHLD, nullptr) : copy_process(how);
  if (child == 0) _exit(use_heap(nullptr));
  if (child < 0) skip("no child: %s", strerror(errno));
  expect_good(wait_for(child), "a child without fork handlers");
}

// Many free spans apart from each other, so that the allocator's thread takes and leaves its locks for milliseconds of
// each period; children are made in the midst of that.
int use_whole_heaps(int rounds) {
  constexpr size_t spans = 6000;
  constexpr double periods = 0.06;
  static void* blocks[spans];
  for (void*& block : blocks) block = malloc(300 * kib);
  size_t children = 0;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < spans; i += 2) free(blocks[i]);
    for (const double until = wall_seconds() + periods; wall_seconds() < until;) {
      for (const way how : {way::fork_alone, way::clone_by_number, way::clone_call}) {
        use_whole_heap(how);
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
    take_and_free();
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
    take_and_free();
    _exit(holds);
  }
  if (!wait_for(child).good()) return broken;
  expect_memory_returned(before, "memory freed by a vfork child");
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) {
    if (strcmp(arguments[1], "heap") == 0) _exit(use_whole_heaps(long_run() ? 2000 : 40));
    if (strcmp(arguments[1], "_Fork") == 0) _exit(return_in_child(way::fork_alone));
    if (strcmp(arguments[1], "clone") == 0) _exit(return_in_child(way::clone_by_number));
    if (strcmp(arguments[1], "vfork") == 0) _exit(return_after_vfork());
    _exit(not_checkable);
  }
  start();
  // Frequent periods: the thread is often at work when a child is made.
  setenv("TARN_DECAY_MS", "20", 1);
  for (const char* what : {"heap", "_Fork", "clone", "vfork"})
    expect_good(run_again(long_run() ? 3600 : 60, what), what);
  measured("children by _Fork, clone and vfork: heap whole, memory returned");
}
