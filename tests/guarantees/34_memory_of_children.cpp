// SPDX-License-Identifier: MIT
// Line 34: idle memory goes back in children of fork, _Fork and clone (the last two run no fork handlers) and in their
// children, and memory that a vfork child frees goes back in its parent. The parent's background thread is running when
// the child is made.
#include <sched.h>
#include <sys/syscall.h>

#include "../system_probes.hpp"
#include "check.hpp"

using namespace guarantee;

extern "C" pid_t _Fork() noexcept;

namespace {

constexpr size_t bytes = 64 * mib;
constexpr size_t block_bytes = 64 * kib;
constexpr size_t block_count = bytes / block_bytes;
void* blocks[block_count];

void take() {
  for (void*& block : blocks) {
    block = malloc(block_bytes);
    TARN_CHECK(block != nullptr, "malloc fails");
    memset(block, 1, block_bytes);
  }
}
void give() {
  for (void* block : blocks) free(block);
}

// Leaves 18 MiB of large blocks that wait for requests of their lengths (background/warm_blocks.hpp).
void use_large_blocks_in_turn() {
  constexpr size_t at_once = 4;
  for (size_t length = 300 * kib; length < 4 * mib; length *= 2) {
    for (int round = 0; round < 3; ++round) {
      void* large[at_once];
      for (void*& block : large) {
        block = malloc(length);
        TARN_CHECK(block != nullptr, "malloc fails");
        memset(block, 1, length);
      }
      for (void* block : large) free(block);
    }
  }
}

size_t at_start;  // the resident set before the program has allocated memory

// Waits at most 5 s until the memory has gone back. Returns how much is left.
size_t left_over() {
  for (int i = 0; i < 50 && growth(at_start, rss_bytes()) > bytes / 8; ++i) sleep_ms(100);
  return growth(at_start, rss_bytes());
}

struct way {
  const char* name;
  pid_t (*make)();
};
constexpr way ways[] = {
    {"fork", [] { return fork(); }},
    {"_Fork", [] { return _Fork(); }},
    {"syscall(SYS_clone)",
     [] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }},
};

int be_a_child(const way& made_by, int generation) {
  use_large_blocks_in_turn();
  const size_t left_large = left_over();
  TARN_CHECK(left_large <= bytes / 8, "%.0f MiB of large blocks stay in a child of %s, generation %d",
             in_mib(left_large), made_by.name, generation);
  take();
  give();
  const size_t left = left_over();
  TARN_CHECK(left <= bytes / 8, "%.0f of %.0f MiB stay in a child of %s, generation %d", in_mib(left),
             in_mib(bytes), made_by.name, generation);
  if (generation == 2) return holds;
  // Gives the background thread work while the next child is made.
  take();
  give();
  use_large_blocks_in_turn();
  sleep_ms(5);
  const pid_t child = made_by.make();
  if (child == 0) {
    alarm(20 * slowness());
    _exit(be_a_child(made_by, generation + 1));
  }
  const child_result result = wait_for(child);
  if (!result.good())
    fail("a child of %s, generation %d, %s", made_by.name, generation + 1,
         result.hung() ? "hangs" : "breaks");
  return holds;
}

// A child of vfork shares its parent's memory.
void free_in_vfork_child() {
  take();
  const pid_t child = vfork();
  if (child == 0) {
    give();
    _exit(holds);
  }
  expect_good(wait_for(child), "a child of vfork");
  const size_t left = left_over();
  TARN_CHECK(left <= bytes / 8, "%.0f of %.0f MiB that a child of vfork has freed stay", in_mib(left),
             in_mib(bytes));
  // What the parent frees later goes back as well.
  take();
  give();
  const size_t later = left_over();
  TARN_CHECK(later <= bytes / 8, "%.0f of %.0f MiB stay after a child of vfork", in_mib(later),
             in_mib(bytes));
}

}  // namespace

int main() {
  start();
  at_start = rss_bytes();
  const bool wiped = system_probes::children_find_wiped_memory();
  for (const way& each : ways) {
    // Without a fork handler, only memory with MADV_WIPEONFORK shows a child that it is one.
    if (&each != ways && !wiped) skip("%s; fork was checked", system_probes::no_wiping);
    const child_result result = run_in_child(60, [&each] { return be_a_child(each, 0); });
    expect_good(result, each.name);
  }
  if (!system_probes::vfork_shares_memory()) skip("%s; other children were checked", system_probes::no_vfork);
  expect_good(run_in_child(60,
                           [] {
                             free_in_vfork_child();
                             return holds;
                           }),
              "vfork");
  return holds;
}
