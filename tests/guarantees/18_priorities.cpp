// SPDX-License-Identifier: MIT
// Line 18: SCHED_FIFO threads of three priorities and a normal one share one processor and the heap without a livelock.
// With a lock that spins or yields, a waiting thread keeps the preempted holder of lower priority from running, until
// real-time throttling stops all real-time threads for the rest of the second.
#include <errno.h>
#include <sched.h>

#include <atomic>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t place_count = 4096;
// Seconds for a batch at the highest priority; throttling begins after 0.95.
constexpr double longest_allowed = 0.3;
constexpr double run_seconds = 4;
std::atomic<void*> places[place_count];
std::atomic<bool> stop{false};
std::atomic<size_t> batches[4];
double longest[4];

// Frees mostly blocks of other threads, and empties the thread's cache again and again.
void batch(random_numbers& random) {
  for (int i = 0; i < 400; ++i) {
    const size_t size = i == 0 ? random.below(512 * kib) + 1 : random.below(1200) + 1;
    void* const block = malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails", size);
    *static_cast<char*>(block) = 1;
    free(places[random.below(place_count)].exchange(block, std::memory_order_acq_rel));
  }
}

void* work(void* argument) {
  const uintptr_t rank = reinterpret_cast<uintptr_t>(argument);
  random_numbers random(rank);
  while (!stop.load(std::memory_order_relaxed)) {
    const double began = wall_seconds();
    batch(random);
    const double took = wall_seconds() - began;
    if (took > longest[rank]) longest[rank] = took;
    batches[rank].fetch_add(1, std::memory_order_relaxed);
    // The real-time threads leave time to the lower ones, at irregular moments.
    if (rank > 0) {
      const timespec pause{0, static_cast<long>(100'000 + random.below(700'000))};
      nanosleep(&pause, nullptr);
    }
  }
  return nullptr;
}

pthread_t start_at(uintptr_t rank) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (rank > 0) {
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    sched_param parameters{};
    parameters.sched_priority = static_cast<int>(rank) * 10;
    pthread_attr_setschedparam(&attributes, &parameters);
  }
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, work, reinterpret_cast<void*>(rank));
  if (error == EPERM) skip("SCHED_FIFO is not permitted");
  if (error != 0) skip("pthread_create: error %d", error);
  return thread;
}

int share_one_processor() {
  cpu_set_t allowed;
  cpu_set_t one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) skip("sched_getaffinity failed");
  int processor = 0;
  while (!CPU_ISSET(processor, &allowed)) ++processor;
  CPU_SET(processor, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) skip("sched_setaffinity failed");
  // Starts the real-time threads first: where they are not permitted, no thread is running yet.
  pthread_t threads[4];
  for (uintptr_t rank = 4; rank-- > 0;) threads[rank] = start_at(rank);
  sleep_ms(static_cast<long>(run_seconds * 1000));
  stop.store(true);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  measured("batches of 400 by falling priority: %zu, %zu, %zu, normal %zu; longest of the highest %.1f ms",
           batches[3].load(), batches[2].load(), batches[1].load(), batches[0].load(), longest[3] * 1e3);
  TARN_CHECK(batches[0].load() > 0, "the normal thread never ran");
  TARN_CHECK(longest[3] < longest_allowed, "the highest priority waits %.0f ms for a batch",
             longest[3] * 1e3);
  return holds;
}

}  // namespace

int main() {
  start();
  expect_good(run_in_child(30, share_one_processor), "threads of four priorities on one processor");
  return holds;
}
