// SPDX-License-Identifier: MIT
// Line 11: 4,000 live threads that have all used the heap take less than 256 KiB of resident memory each, stack
// included.

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t thread_count = 4000;
pthread_barrier_t all_ready;
pthread_barrier_t all_measured;

// Uses many size classes and keeps 10 of 100 blocks.
void* use_and_wait(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  void* blocks[100];
  for (void*& block : blocks) {
    const size_t size = random.size_up_to_bits(13);
    block = malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails in one of %zu threads", size, thread_count);
    memset(block, 1, size);
  }
  for (size_t i = 10; i < 100; ++i) free(blocks[i]);
  pthread_barrier_wait(&all_ready);
  pthread_barrier_wait(&all_measured);
  for (size_t i = 0; i < 10; ++i) free(blocks[i]);
  return nullptr;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  pthread_barrier_init(&all_ready, nullptr, thread_count + 1);
  pthread_barrier_init(&all_measured, nullptr, thread_count + 1);
  pthread_t* const threads = own_array<pthread_t>(thread_count);
  const size_t before = rss_bytes();
  for (size_t i = 0; i < thread_count; ++i) {
    threads[i] = start_thread(use_and_wait, reinterpret_cast<void*>(i), 128 * kib);
  }
  pthread_barrier_wait(&all_ready);
  const size_t each = growth(before, rss_bytes()) / thread_count;
  pthread_barrier_wait(&all_measured);
  for (size_t i = 0; i < thread_count; ++i) pthread_join(threads[i], nullptr);
  measured("%zu live threads: %zu KiB each", thread_count, each / kib);
  TARN_CHECK(each < 256 * kib, "%zu live threads take %zu KiB each", thread_count, each / kib);
  return holds;
}
