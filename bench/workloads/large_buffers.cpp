// SPDX-License-Identifier: MIT
// large_buffers: a temporary buffer of 8–64 MiB, allocated, filled and freed again and again.
// Models: query engines, decoders and numeric code that allocate a scratch buffer per call. The program writes all
// bytes and reads some, so the cost of page faults is included.
// Idea: public reports of query engines that spend a tenth of their time in page faults of such buffers.
// Known to favour: allocators that keep freed large blocks backed; penalises munmap on every free.
#include "support.hpp"

namespace {

constexpr std::size_t sizes_mib[] = {8, 64, 16, 32, 8, 24, 48, 12};

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t steps = options.scaled(100) / options.threads + 1;
  std::atomic<std::uint64_t> checksum{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::uint64_t sum = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t size = sizes_mib[(step + index) % std::size(sizes_mib)] << 20U;
      auto* bytes = static_cast<unsigned char*>(bench::allocate(size));
      std::memset(bytes, static_cast<int>(step & 0x7fU), size);
      bench::escape(bytes);
      for (int sample = 0; sample < 64; ++sample) sum += bytes[random.below(size)];
      std::free(bytes);
    }
    checksum.fetch_add(sum, std::memory_order_relaxed);
  });
  return bench::report(seconds, checksum.load(std::memory_order_relaxed));
}
