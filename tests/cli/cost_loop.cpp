// SPDX-License-Identifier: MIT
// Measures what a buffer costs from outside: the wall time of a loop that allocates a buffer, writes it twice and frees
// it, minus that of a loop that writes one kept buffer. The test of `tarn cost` compares the command's true total with
// it. Usage: cost_loop malloc|mmap BYTES CYCLES ROUNDS; prints the median of the rounds, seconds per cycle.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

double now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void write_twice(void* buffer, std::size_t size) {
  for (const int value : {1, 2}) {
    std::memset(buffer, value, size);
    asm volatile("" : : "r"(buffer) : "memory");
  }
}

void* map(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void require(const void* buffer) {
  if (buffer != nullptr) return;
  std::perror("cost_loop");
  std::exit(1);
}

double loop_with(bool heap, std::size_t size, int cycles) {
  const double begin = now();
  for (int cycle = 0; cycle < cycles; ++cycle) {
    void* buffer = heap ? std::malloc(size) : map(size);
    require(buffer);
    write_twice(buffer, size);
    if (heap) {
      std::free(buffer);
    } else {
      munmap(buffer, size);
    }
  }
  return now() - begin;
}

double loop_without(void* buffer, std::size_t size, int cycles) {
  const double begin = now();
  for (int cycle = 0; cycle < cycles; ++cycle) write_twice(buffer, size);
  return now() - begin;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    std::fputs("usage: cost_loop malloc|mmap BYTES CYCLES ROUNDS\n", stderr);
    return 2;
  }
  const bool heap = std::strcmp(words[1], "malloc") == 0;
  const std::size_t size = std::strtoul(words[2], nullptr, 10);
  const int cycles = std::atoi(words[3]);
  const int rounds = std::atoi(words[4]);
  void* kept = map(size);
  require(kept);
  write_twice(kept, size);
  loop_with(heap, size, 2);
  std::vector<double> differences;
  for (int round = 0; round < rounds; ++round) {
    // The order alternates, so that neither loop gains from running first.
    const double first = round % 2 == 0 ? loop_with(heap, size, cycles) : loop_without(kept, size, cycles);
    const double second = round % 2 == 0 ? loop_without(kept, size, cycles) : loop_with(heap, size, cycles);
    differences.push_back((round % 2 == 0 ? first - second : second - first) / cycles);
  }
  std::sort(differences.begin(), differences.end());
  std::printf("%.9f\n", differences[differences.size() / 2]);
  return 0;
}
