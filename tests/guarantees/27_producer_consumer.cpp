// SPDX-License-Identifier: MIT
// Guarantee 27: one thread allocates 20 million blocks of 64 bytes and another frees them; at most 256 KiB are live:
// the resident set grows by less than 2 MiB.
// The threads share a ring of 4,096 places. Each place passes from one to the other by a release store and an acquire
// load.
#include <sched.h>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t places = 4096;
constexpr size_t block_size = 64;
constexpr size_t bound = 2 * mib;
constexpr size_t blocks = 20'000'000;

void* ring[places];

void* consume(void*) {
  for (size_t i = 0; i < blocks; ++i) {
    void** const place = &ring[i % places];
    void* block;
    while ((block = __atomic_load_n(place, __ATOMIC_ACQUIRE)) == nullptr) sched_yield();
    TARN_CHECK(*static_cast<size_t*>(block) == i, "block %zu holds %zu", i, *static_cast<size_t*>(block));
    give(block);
    __atomic_store_n(place, nullptr, __ATOMIC_RELEASE);
  }
  return nullptr;
}

void* produce(void*) {
  for (size_t i = 0; i < blocks; ++i) {
    void** const place = &ring[i % places];
    while (__atomic_load_n(place, __ATOMIC_ACQUIRE) != nullptr) sched_yield();
    auto* const block = static_cast<size_t*>(take(block_size));
    TARN_CHECK(block != nullptr, "malloc(%zu) failed", block_size);
    *block = i;
    __atomic_store_n(place, static_cast<void*>(block), __ATOMIC_RELEASE);
  }
  return nullptr;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  memset(static_cast<void*>(ring), 0, sizeof ring);
  peak_sampler sampler(5);
  const pthread_t producer = start_thread(produce, nullptr);
  const pthread_t consumer = start_thread(consume, nullptr);
  pthread_join(producer, nullptr);
  pthread_join(consumer, nullptr);
  const size_t grown = sampler.finish();
  TARN_CHECK(grown < bound, "resident set grew by %.2f MiB for 256 KiB live", in_mib(grown));
  measured("peak growth of %.2f MiB", in_mib(grown));
}
