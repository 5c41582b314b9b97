// SPDX-License-Identifier: MIT
// Line 34: a forked child of an idle parent that allocates and frees little, and then rests, copies few pages of the parent's
// heap, although half of that is free in pieces, and backs no huge page. At its limit it uses these pieces.
#include "inject.hpp"

using namespace guarantee;

namespace {

constexpr size_t blocks = 300'000;
constexpr size_t most_bytes = mib;

void work() {
  random_numbers random(2);
  void* held[100];
  for (int round = 0; round < 1000; ++round) {
    for (void*& block : held) {
      const size_t size = 20 + random.below(2000);
      block = memset(malloc(size), 1, size);
    }
    for (void* const block : held) free(block);
  }
}

int child() {
  const size_t before = proc_bytes("/proc/self/smaps_rollup", "Private_Dirty:");
  work();
  sleep_ms(1500);
  const size_t copied = growth(before, proc_bytes("/proc/self/smaps_rollup", "Private_Dirty:"));
  measured("the child copied %zu KiB", copied / kib);
  TARN_CHECK(copied <= most_bytes, "the child copied %zu of at most %zu bytes", copied, most_bytes);
  return holds;
}

// Blocks that only the pieces have room for.
int child_at_limit() {
  using set_option = int(const char*, const char*);
  auto* const set = reinterpret_cast<set_option*>(dlsym(RTLD_DEFAULT, "tarn_set_option"));
  if (set == nullptr) return holds;
  TARN_CHECK(set("limit", "none,16M") == 0, "the limit is refused");
  random_numbers random(3);
  for (size_t i = 0; i < blocks / 6; ++i)
    TARN_CHECK(malloc(50 + random.below(500)) != nullptr, "block %zu is refused though there is room", i);
  return holds;
}

}  // namespace

int main() {
  start();
  if (proc_bytes("/proc/self/smaps_rollup", "Private_Dirty:") == 0) skip("no /proc/self/smaps_rollup");
  need_own_memory_figures();
  random_numbers random(1);
  void** const heap = own_array<void*>(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    const size_t size = 50 + random.below(500);
    heap[i] = memset(malloc(size), 1, size);
  }
  for (size_t i = 0; i < blocks; ++i)
    if (random.below(3) != 0) free(heap[i]);
  sleep_ms(4000);
  expect_good(run_in_child(30, child), "the child");
  expect_good(run_in_child(30, child_at_limit), "a child at its limit");
  return holds;
}
