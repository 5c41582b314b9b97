// SPDX-License-Identifier: MIT
// Guarantee 30: a process that frees 1 GiB and then does nothing, not even call the allocator, has at most 25 % of its
// peak resident set within 5 seconds. Three cases: small blocks freed in random order; blocks of 64 KiB to 1 MiB; small
// blocks of four threads that stay alive and idle.
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t total_bytes = 1 * gib;
constexpr double share_allowed = 0.25;
constexpr long patience_ms = 5000;

struct worker {
  size_t bytes;
  unsigned low;
  unsigned high;
  uint64_t seed;
  pthread_barrier_t* freed;
  size_t* peak;
};

// Frees the blocks in random order.
void free_shuffled(void** blocks, size_t count, random_numbers& random) {
  for (size_t left = count; left > 0; --left) {
    const size_t chosen = random.below(left);
    give(blocks[chosen]);
    blocks[chosen] = blocks[left - 1];
  }
}

void fill_and_free(const worker& self) {
  random_numbers random(self.seed);
  const size_t capacity = self.bytes >> self.low;
  void** const blocks = own_array<void*>(capacity);
  size_t count = 0;
  for (size_t total = 0; total < self.bytes && count < capacity; ++count) {
    const size_t size = size_between_bits(random, self.low, self.high);
    blocks[count] = take(size);
    TARN_CHECK(blocks[count] != nullptr, "malloc(%zu) failed", size);
    memset(blocks[count], 1, size);
    total += size;
  }
  const size_t now = resident();
  if (now > __atomic_load_n(self.peak, __ATOMIC_RELAXED)) __atomic_store_n(self.peak, now, __ATOMIC_RELAXED);
  free_shuffled(blocks, count, random);
  munmap(blocks, capacity * sizeof *blocks);
}

void* work(void* argument) {
  fill_and_free(*static_cast<worker*>(argument));
  pthread_barrier_wait(static_cast<worker*>(argument)->freed);
  for (;;) pause();
}

void wait_for_return(size_t peak, const char* what) {
  const double begin = wall_seconds();
  double share = 1;
  while (share > share_allowed && (wall_seconds() - begin) * 1000 < patience_ms) {
    sleep_ms(50);
    share = static_cast<double>(resident()) / static_cast<double>(peak);
  }
  TARN_CHECK(share <= share_allowed, "%s: %.0f %% of the peak of %.0f MiB still resident after %.1f s", what,
             100 * share, in_mib(peak), wall_seconds() - begin);
  measured("%s: %.0f %% of the peak after %.1f s", what, 100 * share, wall_seconds() - begin);
}

int one_thread(unsigned low, unsigned high, const char* what) {
  size_t peak = 0;
  fill_and_free({total_bytes, low, high, 30, nullptr, &peak});
  wait_for_return(peak, what);
  return holds;
}

int four_idle_threads(const char* what) {
  constexpr size_t threads = 4;
  static worker workers[threads];
  static size_t peak;
  pthread_barrier_t freed;
  pthread_barrier_init(&freed, nullptr, threads + 1);
  for (size_t i = 0; i < threads; ++i) {
    workers[i] = {total_bytes / threads, 5, 13, 30 + i, &freed, &peak};
    start_thread(work, &workers[i]);
  }
  pthread_barrier_wait(&freed);
  wait_for_return(peak, what);
  return holds;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  if (proc_bytes("/proc/meminfo", "MemAvailable:") < 2 * gib) skip("less than 2 GiB of memory available");
  const char* what = "small blocks";
  expect_good(run_in_child(60, [=] { return one_thread(5, 13, what); }), what);
  what = "blocks of 64 KiB to 1 MiB";
  expect_good(run_in_child(60, [=] { return one_thread(16, 20, what); }), what);
  what = "small blocks of four idle threads";
  expect_good(run_in_child(60, [=] { return four_idle_threads(what); }), what);
}
