// SPDX-License-Identifier: MIT
// Guarantee 49: what threads keep in caches does not grow with their number. 4,000 threads that all use 20 sizes of
// blocks, again and again, two at a time: the free blocks in caches have at most 4 MiB for each processor, and the
// resident memory grows by at most 4 KiB for each thread, above that of the same threads before their first block.
#include <semaphore.h>

#include "inject.hpp"

// Present when libtarn is preloaded, null under any other allocator.
extern "C" size_t tarn_stats_json(char* buffer, size_t capacity) noexcept __attribute__((weak));
// Of glibc from 2.35 on; 0: threads have no restartable sequences.
extern "C" const unsigned area_size_of_libc __asm__("__rseq_size") __attribute__((weak));

namespace {

using namespace guarantee;

constexpr size_t thread_count = 4000;
constexpr size_t lanes = 2;  // threads that are active at a time
constexpr size_t rounds = 20;
constexpr size_t sizes = 20;
constexpr size_t blocks_of_size = 6;
constexpr size_t allowed_each = 4 * kib;
constexpr size_t cached_per_processor = 4 * mib;

sem_t* turns = nullptr;
pthread_barrier_t started;
pthread_barrier_t finished;

// 32 to 640 bytes in steps of 32, so that each is another size class up to 256 bytes, and few share one above.
constexpr size_t size_of(size_t i) { return 32 * (i + 1); }

void use_blocks(size_t number) {
  unsigned char* blocks[sizes][blocks_of_size];
  const auto stamp = static_cast<unsigned char>(number % 251);
  for (size_t i = 0; i < sizes; ++i) {
    for (unsigned char*& block : blocks[i]) {
      block = static_cast<unsigned char*>(take(size_of(i)));
      TARN_CHECK(block != nullptr, "malloc(%zu) failed", size_of(i));
      memset(block, stamp, size_of(i));
    }
  }
  for (size_t i = 0; i < sizes; ++i) {
    for (unsigned char* const block : blocks[i]) {
      TARN_CHECK(block[0] == stamp && block[size_of(i) - 1] == stamp, "a block of %zu bytes has two owners",
                 size_of(i));
      give(block);
    }
  }
}

// Each thread wakes the next of its lane.
void* work(void* argument) {
  const auto number = reinterpret_cast<uintptr_t>(argument);
  pthread_barrier_wait(&started);
  for (size_t round = 0; round < rounds; ++round) {
    while (sem_wait(&turns[number]) != 0) {
    }
    use_blocks(number);
    const size_t next = number + lanes < thread_count ? number + lanes : number % lanes;
    if (next > number || round + 1 < rounds) sem_post(&turns[next]);
  }
  pthread_barrier_wait(&finished);
  pthread_barrier_wait(&finished);
  return nullptr;
}

size_t cached_bytes() {
  static char text[2048];
  if (tarn_stats_json == nullptr) return 0;
  tarn_stats_json(text, sizeof text);
  const char* const key = "\"cached\": ";
  const char* const at = strstr(text, key);
  return at == nullptr ? 0 : strtoul(at + strlen(key), nullptr, 10);
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  if (&area_size_of_libc == nullptr || area_size_of_libc == 0) skip("no restartable sequences");
  need_ordinary_pages();
  pthread_barrier_init(&started, nullptr, thread_count + 1);
  pthread_barrier_init(&finished, nullptr, thread_count + 1);
  turns = own_array<sem_t>(thread_count);
  for (size_t i = 0; i < thread_count; ++i) sem_init(&turns[i], 0, 0);
  pthread_t* const threads = own_array<pthread_t>(thread_count);
  for (size_t i = 0; i < thread_count; ++i)
    threads[i] = start_thread(work, reinterpret_cast<void*>(i), 128 * kib);
  pthread_barrier_wait(&started);
  const size_t before = resident();
  for (size_t lane = 0; lane < lanes; ++lane) sem_post(&turns[lane]);
  pthread_barrier_wait(&finished);
  const size_t each = growth(before, resident()) / thread_count;
  const size_t cached = cached_bytes();
  pthread_barrier_wait(&finished);
  for (size_t i = 0; i < thread_count; ++i) pthread_join(threads[i], nullptr);
  const auto processors = static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  measured("%zu active threads: %.1f MiB in caches, %.1f KiB of resident memory for each thread",
           thread_count, in_mib(cached), static_cast<double>(each) / kib);
  TARN_CHECK(cached <= cached_per_processor * processors, "%.1f MiB in caches on %zu processors",
             in_mib(cached), processors);
  TARN_CHECK(each <= allowed_each, "%.1f KiB of resident memory for each thread",
             static_cast<double>(each) / kib);
  return holds;
}
