// SPDX-License-Identifier: MIT
// loops: takes a buffer, writes all of it and gives it back, again and again.
// Models: decoders, image and tensor code, and query engines that take a scratch buffer per call.
// Contenders, in turn within each round, so that all run under the same conditions: one buffer that is only written
// (the lower bound), a buffer pool, a pool of zeroed buffers, the process's malloc, and mmap with munmap.
// Known to favour: allocators that keep memory backed. Buffers of other lengths, or of other threads, do not interfere
// here.
// Output: one JSON object: medians in µs, and page faults per round after the first. Each process measures one size:
// memory that another size has left warm would serve it.
#include <sys/mman.h>
#include <sys/resource.h>

#include "../workloads/support.hpp"
#include "tarn/buffer_pool.hpp"

namespace {

long faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void write_all(void* memory, std::size_t bytes, std::size_t round) {
  std::memset(memory, static_cast<int>(round & 0x7fU), bytes);
  bench::escape(memory);
}

void* map(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) bench::fail("mmap");
  return memory;
}

// The time and the page faults of one contender, round by round.
struct account {
  const char* name;
  std::vector<double> us;
  long faults = 0;

  template <class Action>
  void measure(std::size_t round, Action action) {
    const long before = ::faults();
    const bench::stopwatch clock;
    action();
    us.push_back(clock.seconds() * 1e6);
    if (round != 0) faults += ::faults() - before;
  }
  [[nodiscard]] double median() {
    us.erase(us.begin());
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
  }
};

void run(std::size_t bytes, std::size_t rounds) {
  account accounts[] = {{"reused", {}}, {"pool", {}}, {"zeroed", {}}, {"malloc", {}}, {"mmap", {}}};
  for (account& each : accounts) each.us.reserve(rounds);
  void* const reused = map(bytes);
  write_all(reused, bytes, 0);
  tarn::buffer_pool pool({.name = "loops", .limit = 4 * bytes});
  tarn::buffer_pool zeroed({.name = "zeroed loops", .zeroed = true, .limit = 4 * bytes});
  const auto turn = [&](std::size_t which, std::size_t round) {
    switch (which) {
      case 0: return write_all(reused, bytes, round);
      case 1: return write_all(pool.get(bytes).data(), bytes, round);
      case 2: return write_all(zeroed.get(bytes).data(), bytes, round);
      case 3: {
        void* const block = bench::allocate(bytes);
        write_all(block, bytes, round);
        return std::free(block);
      }
      default: {
        void* const memory = map(bytes);
        write_all(memory, bytes, round);
        munmap(memory, bytes);
      }
    }
  };
  for (std::size_t round = 0; round < rounds; ++round) {
    // Each contender goes first in turn: after munmap the caches are in another state than after a pool.
    for (std::size_t i = 0; i < std::size(accounts); ++i) {
      const std::size_t which = (i + round) % std::size(accounts);
      accounts[which].measure(round, [&] { turn(which, round); });
    }
  }
  munmap(reused, bytes);
  std::printf("{\"mib\": %zu", bytes >> 20U);
  for (account& each : accounts) {
    std::printf(", \"%s\": {\"us\": %.1f, \"faults\": %.2f}", each.name, each.median(),
                static_cast<double>(each.faults) / static_cast<double>(rounds - 1));
  }
  std::printf("}\n");
}

}  // namespace

int main(int count, char** words) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: %s MIB [SCALE]   (SCALE in per mille of the full work, default 1000)\n",
                 words[0]);
    return 2;
  }
  const std::size_t mib = bench::parse_number(words[1], 4096, "MIB", words[0]);
  bench::arguments options;
  if (count == 3) options.scale = bench::parse_number(words[2], 100000, "SCALE", words[0]);
  run(mib << 20U, options.scaled(6400, 3 * mib) / mib + 2);
}
