// SPDX-License-Identifier: MIT
// large_set: 20 long-lived large blocks, replaced at random.
// Models: image or column stores that keep blocks of 5–25 MiB and replace them one at a time. The program writes one
// byte per page, so the time goes to page faults and returned memory, not to memset.
// Idea: the malloc-large benchmark of the mimalloc-bench suite (D. Leijen), rebuilt from its description.
// Known to favour: allocators that keep large blocks mapped and cut them to size; penalises one mmap per block.
#include "support.hpp"

namespace {

constexpr std::size_t live_blocks = 20;
constexpr std::size_t smallest_size = 5U << 20U;
constexpr std::size_t largest_size = 25U << 20U;

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t steps = options.scaled(300) / options.threads + 1;
  const std::size_t live = std::max<std::size_t>(options.scaled(live_blocks, 2) / options.threads, 1);
  std::atomic<std::uint64_t> checksum{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::vector<void*> blocks(live, nullptr);
    std::uint64_t sum = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      void*& slot = blocks[random.below(live)];
      std::free(slot);
      const std::size_t size = random.between(smallest_size, largest_size);
      slot = bench::allocate(size);
      bench::touch(slot, size);
      sum += size;
    }
    for (void* block : blocks) std::free(block);
    checksum.fetch_add(sum, std::memory_order_relaxed);
  });
  return bench::report(seconds, checksum.load(std::memory_order_relaxed));
}
