// SPDX-License-Identifier: MIT
// idle_threads: how much memory threads keep after they have allocated, freed everything and gone to sleep, for the
// guarantees on idle threads (29 and 44). While the test waits, at most 5 seconds, no thread calls the allocator.
// Owner: each program includes this header once. Thread safety: main calls keeps_little_when_idle().
#pragma once

#include "inject.hpp"

namespace guarantee {

struct idle_scene {
  int least_bits, most_bits;  // sizes are log-uniform over [2^least_bits, 2^most_bits) bytes
  size_t bound;               // bytes that each idle thread may keep
  uint64_t seed;
};

inline constexpr size_t idle_threads = 100;
inline constexpr size_t bytes_per_thread = 8 * mib;

inline idle_scene scene;
inline pthread_barrier_t allocated;
inline pthread_barrier_t freed;
inline pthread_barrier_t finished;

struct idle_worker {
  uint64_t seed;
};

inline void* allocate_free_and_sleep(void* argument) {
  random_numbers random(static_cast<idle_worker*>(argument)->seed);
  void* list = nullptr;
  for (size_t total = 0; total < bytes_per_thread;) {
    const size_t size = size_between_bits(random, scene.least_bits, scene.most_bits);
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

inline void* watch_idle(void* result) {
  pthread_barrier_wait(&allocated);
  const size_t before = *static_cast<size_t*>(result);
  pthread_barrier_wait(&freed);
  constexpr long patience_ms = 5000;
  size_t each = 0;
  long waited = 0;
  for (; waited <= patience_ms; waited += 100) {
    each = growth(before, resident()) / idle_threads;
    if (each <= scene.bound) break;
    sleep_ms(100);
  }
  TARN_CHECK(each <= scene.bound, "%.2f MiB kept for each idle thread after %ld ms", in_mib(each), waited);
  measured("%.2f MiB for each idle thread after %ld ms", in_mib(each), waited);
  pthread_barrier_wait(&finished);
  return nullptr;
}

// Fails the test if the threads keep more than `chosen.bound` bytes each on average, stacks included.
inline void keeps_little_when_idle(const idle_scene& chosen) {
  need_own_memory_figures();
  if (proc_bytes("/proc/meminfo", "MemAvailable:") < 2 * gib) skip("less than 2 GiB of memory available");
  scene = chosen;
  for (pthread_barrier_t* one : {&allocated, &freed, &finished})
    pthread_barrier_init(one, nullptr, idle_threads + 1);
  static idle_worker workers[idle_threads];
  for (size_t i = 0; i < idle_threads; ++i) workers[i].seed = scene.seed + i;
  static size_t before;
  before = resident();
  const pthread_t watcher = start_thread(watch_idle, &before);
  in_threads(allocate_free_and_sleep, workers);
  pthread_join(watcher, nullptr);
}

}  // namespace guarantee
