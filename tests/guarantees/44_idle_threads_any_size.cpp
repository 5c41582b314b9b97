// SPDX-License-Identifier: MIT
// Guarantee 44: as 29, for blocks of every size from 16 bytes to 256 KiB: 100 threads that each allocated 8 MiB at the same
// time, freed it and sleep keep at most 0.5 MiB of memory each, what lies in their loaded magazines included.
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t threads = 100;
constexpr size_t bytes_per_thread = 8 * mib;
constexpr size_t bound = mib / 2;
constexpr long patience_ms = 5000;

pthread_barrier_t allocated;
pthread_barrier_t freed;
pthread_barrier_t finished;

struct worker {
  uint64_t seed;
};

void* work(void* argument) {
  random_numbers random(static_cast<worker*>(argument)->seed);
  void* list = nullptr;
  for (size_t total = 0; total < bytes_per_thread;) {
    const size_t size = size_between_bits(random, 4, 18);
    void* const block = take(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) failed", size);
    memset(block, 1, size);
    memcpy(block, &list, sizeof list);
    list = block;
    total += size;
  }
  pthread_barrier_wait(&allocated);
  while (list != nullptr) {
    void* next;
    memcpy(&next, list, sizeof next);
    give(list);
    list = next;
  }
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&finished);
  return nullptr;
}

void* watch(void* result) {
  pthread_barrier_wait(&allocated);
  const size_t before = *static_cast<size_t*>(result);
  pthread_barrier_wait(&freed);
  size_t each = 0;
  long waited = 0;
  for (; waited <= patience_ms; waited += 100) {
    each = growth(before, resident()) / threads;
    if (each <= bound) break;
    sleep_ms(100);
  }
  TARN_CHECK(each <= bound, "%.2f MiB kept for each idle thread after %ld ms", in_mib(each), waited);
  measured("%.2f MiB for each idle thread after %ld ms", in_mib(each), waited);
  pthread_barrier_wait(&finished);
  return nullptr;
}

}  // namespace

int main() {
  start();
  if (proc_bytes("/proc/meminfo", "MemAvailable:") < 2 * gib) skip("less than 2 GiB of memory available");
  for (pthread_barrier_t* one : {&allocated, &freed, &finished})
    pthread_barrier_init(one, nullptr, threads + 1);
  static worker workers[threads];
  for (size_t i = 0; i < threads; ++i) workers[i].seed = 44 + i;
  static size_t before;
  before = resident();
  const pthread_t watcher = start_thread(watch, &before);
  in_threads(work, workers);
  pthread_join(watcher, nullptr);
}
