// SPDX-License-Identifier: MIT
// Guarantee 42: 200 threads have each allocated, written and freed one block of every size class up to 256 KiB, and
// then sleep. After at most five seconds they keep together at most 4 MiB more than under the C library's malloc, and
// at most 1 MiB more with TARN_CACHE_BUDGET=1M.
// The program executes itself for each of the three measurements; the one under libc gives the bound for the others.
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t threads = 200;
constexpr long patience_ms = 5000;

pthread_barrier_t begin;
pthread_barrier_t freed;
pthread_barrier_t finished;

// The size classes of tarn: 8, steps of 16 up to 128, then eight steps per doubling.
size_t next_size(size_t size) {
  if (size < 16) return 16;
  if (size < 128) return size + 16;
  size_t step = 16;
  while (step * 16 <= size) step *= 2;
  return size + step;
}

void* work(void*) {
  pthread_barrier_wait(&begin);
  for (size_t size = 8; size <= 256 * kib; size = next_size(size)) {
    void* const block = take(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) failed", size);
    memset(block, 1, size);
    give(block);
  }
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&finished);
  return nullptr;
}

// By how much the resident set has grown when the threads sleep: the first value within `bound`, or the last one after
// patience_ms.
size_t measure(size_t bound) {
  for (pthread_barrier_t* one : {&begin, &freed, &finished}) pthread_barrier_init(one, nullptr, threads + 1);
  static pthread_t started[threads];
  for (pthread_t& thread : started) thread = start_thread(work, nullptr, 64 * kib);
  sleep_ms(100);
  const size_t before = resident();
  pthread_barrier_wait(&begin);
  pthread_barrier_wait(&freed);
  size_t kept = 0;
  for (long waited = 0; waited <= patience_ms; waited += 100) {
    sleep_ms(100);
    kept = growth(before, resident());
    if (kept <= bound) break;
  }
  pthread_barrier_wait(&finished);
  for (pthread_t thread : started) pthread_join(thread, nullptr);
  return kept;
}

struct settings {
  bool under_libc;
  const char* budget;
};

// Returns what measure() finds in a newly executed process, which writes it to descriptor 100.
size_t measure_in_new_process(const settings& with, size_t bound) {
  static size_t* const result = [] {
    const int file = memfd_create("kept", 0);
    if (file < 0 || ftruncate(file, sizeof(size_t)) != 0 || dup2(file, 100) < 0) skip("memfd_create failed");
    return static_cast<size_t*>(mmap(nullptr, sizeof(size_t), PROT_READ, MAP_SHARED, 100, 0));
  }();
  const child_result child = run_in_child(60, [&with, bound] {
    if (with.under_libc) {
      unsetenv("LD_PRELOAD");
      unsetenv("TARN_LIB");
    }
    if (with.budget != nullptr) setenv("TARN_CACHE_BUDGET", with.budget, 1);
    char text[32];
    snprintf(text, sizeof text, "%zu", bound);
    execl("/proc/self/exe", "measure", text, static_cast<char*>(nullptr));
    return not_checkable;
  });
  expect_good(child, "a measurement");
  return *result;
}

}  // namespace

int main(int count, char** arguments) {
  start();
  if (count == 2) {
    const size_t kept = measure(strtoul(arguments[1], nullptr, 10));
    return pwrite(100, &kept, sizeof kept, 0) == sizeof kept ? holds : broken;
  }
  const size_t libc = measure_in_new_process({true, nullptr}, SIZE_MAX);
  const size_t by_default = measure_in_new_process({false, nullptr}, libc + 4 * mib);
  const size_t budget_1m = measure_in_new_process({false, "1M"}, libc + 1 * mib);
  measured("libc %.1f MiB, default %.1f MiB, TARN_CACHE_BUDGET=1M %.1f MiB, for %zu sleeping threads",
           in_mib(libc), in_mib(by_default), in_mib(budget_1m), threads);
  TARN_CHECK(by_default <= libc + 4 * mib, "%.1f MiB kept by %zu sleeping threads, libc %.1f MiB",
             in_mib(by_default), threads, in_mib(libc));
  TARN_CHECK(budget_1m <= libc + 1 * mib,
             "%.1f MiB kept by %zu sleeping threads with TARN_CACHE_BUDGET=1M, libc %.1f MiB",
             in_mib(budget_1m), threads, in_mib(libc));
}
