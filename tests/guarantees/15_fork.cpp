// SPDX-License-Identifier: MIT
// Line 15: after a fork while other threads allocate, the child has a working heap: it frees the parent's blocks,
// starts threads and forks again.
#include <atomic>

#include "../system_probes.hpp"
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t place_count = 4096;
std::atomic<void*> places[place_count];
std::atomic<bool> stop{false};

size_t random_size(random_numbers& random) {
  const size_t kind = random.below(1000);
  return kind == 0   ? random.below(3 * mib) + 1
         : kind < 30 ? random.below(100 * kib) + 1
                     : random.below(2000) + 1;
}

void churn_once(random_numbers& random) {
  const size_t size = random_size(random);
  void* const block = malloc(size);
  TARN_CHECK(block != nullptr, "malloc(%zu) fails", size);
  memset(block, 1, size < 256 ? size : 256);
  free(places[random.below(place_count)].exchange(block, std::memory_order_acq_rel));
}

void* churn_until_stopped(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  while (!stop.load(std::memory_order_relaxed)) churn_once(random);
  return nullptr;
}

void* churn_a_while(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  for (int i = 0; i < 3000; ++i) churn_once(random);
  return nullptr;
}

// Frees all blocks that the parent's threads have put into `places`.
void free_inherited() {
  for (auto& place : places) free(place.exchange(nullptr, std::memory_order_acq_rel));
}

void use_threads() {
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; ++i) threads[i] = start_thread(churn_a_while, reinterpret_cast<void*>(i));
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

int be_a_child(int generation) {
  random_numbers random(static_cast<uint64_t>(getpid()));
  for (int i = 0; i < 1000; ++i) churn_once(random);
  free_inherited();
  use_threads();
  if (generation > 0) {
    // Other threads allocate during this fork as well.
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; ++i)
      threads[i] = start_thread(churn_until_stopped, reinterpret_cast<void*>(i + 9));
    for (int i = 0; i < 3; ++i) {
      expect_good(run_in_child(20, [generation] { return be_a_child(generation - 1); }),
                  "the child of a child");
    }
    stop.store(true);
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    free_inherited();
  }
  return holds;
}

}  // namespace

int main() {
  start();
  // tarn's background thread ends before a fork and starts again after it.
  if (!system_probes::children_beside_ending_threads_start_threads())
    skip("%s", system_probes::no_threads_in_children);
  const int forks = static_cast<int>((long_run() ? 5000 : 150) / slowness());
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i)
    threads[i] = start_thread(churn_until_stopped, reinterpret_cast<void*>(i));
  for (int i = 0; i < forks; ++i) {
    const int generation = i % 10 == 0 ? 1 : 0;
    alarm(100 * slowness());  // ends a hang in the parent's own fork; each child has its own limit
    expect_good(run_in_child(20, [generation] { return be_a_child(generation); }), "a child of fork");
  }
  stop.store(true);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  free_inherited();
  measured("%d forks against 4 allocating threads, every tenth child forks again", forks);
  return holds;
}
