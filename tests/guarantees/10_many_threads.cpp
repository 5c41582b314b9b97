// SPDX-License-Identifier: MIT
// Line 10: ended threads leave no memory behind. 100,000 threads (40,000 in a quick run), 64 at a time: after the first
// tenth, memory grows by less than 16 MiB and the table of mappings by less than 256. Threads leave blocks to each
// other, so that some are freed after the thread that allocated them has ended.
#include <atomic>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t alive = 64;
constexpr size_t blocks_per_thread = 200;

std::atomic<void*> left_behind[256];

void* live_and_die(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  void* blocks[blocks_per_thread];
  for (void*& block : blocks) {
    const size_t size = random.below(100) == 0 ? random.below(128 * kib) + 1 : random.size_up_to_bits(11);
    block = malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails in a thread", size);
    *static_cast<char*>(block) = 1;
  }
  for (size_t i = 0; i < blocks_per_thread; ++i) {
    if (i % 8 != 0)
      free(blocks[i]);
    else  // frees a block that another thread has left
      free(left_behind[random.below(256)].exchange(blocks[i], std::memory_order_acq_rel));
  }
  return nullptr;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  const size_t total = long_run() ? 100'000 : 40'000;
  static pthread_t threads[alive];
  size_t rss_before = 0;
  size_t mappings_before = 0;
  for (size_t i = 0; i < total; ++i) {
    if (i >= alive) pthread_join(threads[i % alive], nullptr);
    if (i == total / 10) {
      rss_before = rss_bytes();
      mappings_before = vma_count();
    }
    threads[i % alive] = start_thread(live_and_die, reinterpret_cast<void*>(i), 256 * kib);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  const size_t grown = growth(rss_before, rss_bytes());
  const size_t mappings = growth(mappings_before, vma_count());
  measured("%zu threads, %zu alive: + %.1f MiB, + %zu mappings after the first tenth", total, alive,
           in_mib(grown), mappings);
  TARN_CHECK(grown < 16 * mib, "%zu threads grow the resident set by %.1f MiB", total, in_mib(grown));
  TARN_CHECK(mappings < 256, "%zu threads leave %zu mappings", total, mappings);
  return holds;
}
