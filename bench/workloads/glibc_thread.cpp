// SPDX-License-Identifier: MIT
// glibc_thread: each thread replaces random blocks of a small working set.
// Models: independent worker threads with about a thousand live blocks each, of 16 bytes to 1 KiB, longer ones rarer.
// The working set fits the processor's caches, so the benchmark shows the cost of malloc and free themselves.
// Idea: the malloc-thread benchmark of the GNU C library (benchtests, bench-malloc-thread). Its size distribution
// (probability inverse to the square of the size) is rebuilt from its description.
// Known to favour: short fast paths; shows nothing about blocks that another thread frees.
#include "support.hpp"

namespace {

constexpr std::size_t live_blocks = 1024;
constexpr std::size_t smallest_size = 16;
constexpr std::size_t largest_size = 1024;
constexpr std::size_t size_table_length = 4096;

// Inverse of the cumulative distribution p(s) ~ 1/s^2 over [smallest, largest].
std::vector<std::uint16_t> make_size_table() {
  std::vector<std::uint16_t> sizes(size_table_length);
  for (std::size_t index = 0; index < size_table_length; ++index) {
    const double share = (static_cast<double>(index) + 0.5) / static_cast<double>(size_table_length);
    const double low = 1.0 / static_cast<double>(smallest_size);
    const double high = 1.0 / static_cast<double>(largest_size);
    sizes[index] = static_cast<std::uint16_t>(1.0 / (low - share * (low - high)));
  }
  return sizes;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t steps = options.scaled(110'000'000) / options.threads + 1;
  const std::vector<std::uint16_t> sizes = make_size_table();
  std::atomic<std::uint64_t> checksum{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    void* live[live_blocks] = {};
    std::uint64_t sum = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const std::uint64_t bits = random.next();
      void*& slot = live[bits % live_blocks];
      std::free(slot);
      const std::size_t size = sizes[(bits >> 20U) % size_table_length];
      sum += size;
      slot = bench::allocate(size);
      *static_cast<unsigned char*>(slot) = static_cast<unsigned char>(bits);
    }
    for (void* block : live) std::free(block);
    checksum.fetch_add(sum, std::memory_order_relaxed);
  });
  return bench::report(seconds, checksum.load(std::memory_order_relaxed));
}
