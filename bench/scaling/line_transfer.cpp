// SPDX-License-Identifier: MIT
// line_transfer: how long a cache line takes from one processor to another that writes to it. Two threads, each on a
// processor of its own
//   - pass a counter back and forth: the nanoseconds of one way, as for the line of a lock;
//   - in turn write to 16,384 lines in random order: the nanoseconds of one line, less those of a line that the thread has
//     written last itself. Such lines do not wait for each other, as those of blocks that another thread has used.
// The output is both figures, the least of ten series.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
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

constexpr std::size_t line_count = 16'384;
struct alignas(64) one_line {
  std::uint64_t value;
};

double write_all(std::vector<one_line>& lines, const std::vector<std::uint32_t>& order) {
  const auto begin = std::chrono::steady_clock::now();
  for (const std::uint32_t i : order) {
    ++lines[i].value;
    // About as many instructions as a new or delete has: so many lines can be on their way at once as there.
    asm volatile(".rept 64\n\tnop\n\t.endr");
  }
  asm volatile("" : : "r"(lines.data()) : "memory");
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return time.count() / line_count;
}

// One thread's times for the lines that the other has written, and for its own.
struct times {
  double of_other = 1e9;
  double own = 1e9;
};

void write_in_turn(std::vector<one_line>& lines, const std::vector<std::uint32_t>& order, unsigned parity,
                   times& found) {
  for (unsigned turn = parity; turn < 2 * series; turn += 2) {
    // acquire, release: partners of each other in the two threads.
    while (line.load(std::memory_order_acquire) != turn) {
    }
    const double first = write_all(lines, order);
    if (turn > 1) found.of_other = std::min(found.of_other, first);
    found.own = std::min(found.own, write_all(lines, order));
    line.store(turn + 1, std::memory_order_release);
  }
}

double independent_line(const std::vector<int>& processors) {
  std::vector<one_line> lines(line_count);
  std::vector<std::uint32_t> order(line_count);
  for (std::uint32_t i = 0; i < line_count; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  times found[2];
  line.store(0, std::memory_order_relaxed);
  std::thread other([&] {
    pin_to(processors[1]);
    write_in_turn(lines, order, 1, found[1]);
  });
  write_in_turn(lines, order, 0, found[0]);
  other.join();
  const double of_other = std::min(found[0].of_other, found[1].of_other);
  return std::max(0.0, of_other - std::min(found[0].own, found[1].own));
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
  std::printf("%.1f %.1f\n", least, independent_line(processors));
  return 0;
}
