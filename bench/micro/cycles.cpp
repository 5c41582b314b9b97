// SPDX-License-Identifier: MIT
// bench_cycles: ticks of the processor's time counter per malloc+free of 64 bytes, as pairs and in batches of
//   1,000.
// Owner: the benchmark runner, which starts many short processes of it under each allocator in random order.
// Thread safety: one thread. No library but the C library is used between two readings of the counter.
// Invariant: a reading covers one block of work. The median of all readings is reported, so that interrupts do not
// count. Ticks are those of the time counter (TSC on x86-64, CNTVCT on aarch64), not the core's clock cycles.
// Output: one JSON object.
#include "ticks.hpp"

namespace {

constexpr std::size_t pairs_per_block = 2000;
constexpr std::size_t batch_length = 1000;
constexpr std::size_t block_size = 64;

void pair_block() {
  for (std::size_t pair = 0; pair < pairs_per_block; ++pair) std::free(bench::allocate(block_size));
}

void batch_block() {
  static void* blocks[batch_length];
  for (void*& block : blocks) block = bench::allocate(block_size);
  for (void* block : blocks) std::free(block);
}

template <class work_type>
double median_ticks(std::size_t samples, std::size_t pairs_per_sample, work_type work) {
  std::vector<std::uint64_t> readings(samples);
  for (std::size_t warm_up = 0; warm_up < samples / 10 + 1; ++warm_up) work();
  for (std::uint64_t& reading : readings) {
    const std::uint64_t start = bench::ticks();
    work();
    reading = bench::ticks() - start;
  }
  const auto middle = readings.begin() + static_cast<std::ptrdiff_t>(samples / 2);
  std::nth_element(readings.begin(), middle, readings.end());
  return static_cast<double>(*middle) / static_cast<double>(pairs_per_sample);
}

}  // namespace

int main(int count, char** words) {
  const unsigned samples = count == 1 ? 2000 : bench::parse_number(words[1], 1'000'000, "SAMPLES", words[0]);
  if (count > 2) {
    std::fprintf(stderr, "usage: %s [SAMPLES]\n", words[0]);
    return 2;
  }
  const double pair = median_ticks(samples, pairs_per_block, pair_block);
  const double batch = median_ticks(samples, batch_length, batch_block);
  std::printf("{\"pair64\": %.3f, \"batch1000\": %.3f, \"ticks_per_ns\": %.4f}\n", pair, batch,
              bench::tick_rate());
  return 0;
}
