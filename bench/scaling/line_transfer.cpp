// SPDX-License-Identifier: MIT
// line_transfer: how long a cache line takes from one processor to another that writes to it. Two threads, each on a
// processor of its own, pass a counter back and forth; the output is the nanoseconds of one way, the least of ten series.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr unsigned series = 10;
constexpr unsigned passes = 200'000;

alignas(128) std::atomic<unsigned> line{0};

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Adds one whenever the counter has the parity of this side.
void pass(unsigned parity, unsigned until) {
  for (unsigned next = parity; next < until; next += 2) {
    // acquire, release: partners of each other in the two threads.
    while (line.load(std::memory_order_acquire) != next) {
    }
    line.store(next + 1, std::memory_order_release);
  }
}

}  // namespace

int main() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  if (processors.size() < 2) {
    std::fprintf(stderr, "line_transfer needs two processors\n");
    return 1;
  }
  double least = 1e9;
  for (unsigned i = 0; i < series; ++i) {
    line.store(0, std::memory_order_relaxed);
    std::thread other([&] {
      pin_to(processors[1]);
      pass(1, passes);
    });
    pin_to(processors[0]);
    const auto begin = std::chrono::steady_clock::now();
    pass(0, passes);
    other.join();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    least = std::min(least, time.count() / passes);
  }
  std::printf("%.1f\n", least);
  return 0;
}
