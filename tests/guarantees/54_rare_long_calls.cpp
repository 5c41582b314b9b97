// SPDX-License-Identifier: MIT
// Line 54: threads on all processors, and as many that only compute, allocate, resize and free blocks of up to 256 KiB, some of
// them blocks of another thread. Of the calls in which the kernel counts no page fault and does not take the processor away, at
// most one in a million takes more than 100 microseconds of the thread's processor time. A computation that touches a live
// block is timed in the same way. It says how many the machine makes that long: its interrupts, and its host, which may take
// memory away and bring it back without the kernel.
#include <sys/resource.h>

#include <atomic>

#include "inject.hpp"

using namespace guarantee;

namespace {

constexpr long most_ns = 100'000;
constexpr size_t calls_for_one = 1'000'000;
// What a short run may have beside that.
constexpr size_t few = 3;
constexpr unsigned computed_every = 4;
constexpr size_t blocks_of_thread = 2000;
constexpr size_t most_threads = 64;
constexpr unsigned size_bits = 18;

struct block {
  void* start;
  size_t size;
};

std::atomic<void*> handed_over[256];
std::atomic<bool> over{false};

long thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

struct call_counts {
  size_t calls = 0;  // without page faults and undisturbed
  size_t too_long = 0;
  long longest_ns = 0;

  template <class Call>
  void time(Call call) {
    rusage before{};
    rusage after{};
    getrusage(RUSAGE_THREAD, &before);
    const long start = thread_ns();
    call();
    const long ns = thread_ns() - start;
    getrusage(RUSAGE_THREAD, &after);
    if (after.ru_minflt != before.ru_minflt || after.ru_nivcsw != before.ru_nivcsw) return;
    ++calls;
    too_long += ns > most_ns ? 1 : 0;
    longest_ns = ns > longest_ns ? ns : longest_ns;
  }
  void add(const call_counts& more) {
    calls += more.calls;
    too_long += more.too_long;
    longest_ns = more.longest_ns > longest_ns ? more.longest_ns : longest_ns;
  }
};

struct worker {
  uint64_t seed;
  call_counts of_malloc;
  call_counts of_computing;
};

void compute() {
  for (unsigned i = 0; i < 3000; ++i) (void)hide(i);
}

void touch(const block& one) {
  if (one.start != nullptr && one.size != 0) *static_cast<volatile char*>(one.start) = 1;
}

void* keep_busy(void*) {
  while (!over.load(std::memory_order_relaxed)) compute();
  return nullptr;
}

void write_to(const block& one) {
  for (size_t at = 0; at < one.size; at += 4 * kib) static_cast<char*>(one.start)[at] = 1;
}

void* work(void* of) {
  worker& self = *static_cast<worker*>(of);
  random_numbers random(self.seed);
  block* const blocks = own_array<block>(blocks_of_thread);
  while (!over.load(std::memory_order_relaxed)) {
    block& one = blocks[random.below(blocks_of_thread)];
    const size_t size = random.size_up_to_bits(size_bits);
    if (one.start == nullptr) {
      self.of_malloc.time([&] { one = {take(size), size}; });
      write_to(one);
    } else if (random.below(16) == 0) {
      self.of_malloc.time([&] { one = {realloc(one.start, size), size}; });
      write_to(one);
    } else {
      void* freed = one.start;
      one = {};
      if (random.below(8) == 0)
        freed = handed_over[random.below(std::size(handed_over))].exchange(freed, std::memory_order_acq_rel);
      if (freed != nullptr) self.of_malloc.time([=] { give(freed); });
    }
    if (random.below(computed_every) == 0) {
      const block& any = blocks[random.below(blocks_of_thread)];
      self.of_computing.time([&] {
        compute();
        touch(any);
      });
    }
  }
  for (size_t i = 0; i < blocks_of_thread; ++i) give(blocks[i].start);
  return nullptr;
}

}  // namespace

int main() {
  start();
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const size_t count =
      static_cast<size_t>(processors) < most_threads ? static_cast<size_t>(processors) : most_threads;
  static worker workers[most_threads];
  pthread_t threads[2 * most_threads];
  for (size_t i = 0; i < count; ++i) {
    workers[i].seed = 54 + i;
    threads[2 * i] = start_thread(work, &workers[i]);
    threads[2 * i + 1] = start_thread(keep_busy, nullptr);
  }
  sleep_ms(long_run() ? 600'000 : 6'000);
  over.store(true, std::memory_order_relaxed);
  for (size_t i = 0; i < 2 * count; ++i) pthread_join(threads[i], nullptr);

  call_counts all;
  call_counts computing;
  for (size_t i = 0; i < count; ++i) {
    all.add(workers[i].of_malloc);
    computing.add(workers[i].of_computing);
  }
  const size_t by_machine = computing.too_long * all.calls / (computing.calls + 1);
  const size_t allowed = all.calls / calls_for_one + few + 2 * by_machine;
  measured("%zu calls: %zu above %ld us, the longest %ld us; of as many computations %zu", all.calls,
           all.too_long, most_ns / 1000, all.longest_ns / 1000, by_machine);
  TARN_CHECK(all.too_long <= allowed, "%zu of %zu calls take more than %ld us; allowed: %zu", all.too_long,
             all.calls, most_ns / 1000, allowed);
  return holds;
}
