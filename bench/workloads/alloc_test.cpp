// SPDX-License-Identifier: MIT
// alloc_test: random replacement in a large array of blocks, sizes as programs ask for them.
// Models: a program with a steady live set of mixed small objects and random lifetimes; no block changes
//   threads.
// Idea: node.js/ITHare "alloc-test" (S. Ignatchenko et al.): size octaves of geometric probability, random
//   slots.
// Known to favour: allocators whose free touches little beside the block itself; cache misses take most of
//   the time.
#include "support.hpp"

namespace {

constexpr std::size_t slots_in_all = 64 * 1024;
constexpr unsigned smallest_bit = 4;
constexpr unsigned largest_bit = 12;

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t steps = options.scaled(28'000'000) / options.threads + 1;
  const std::size_t slot_count = slots_in_all / options.threads + 1;
  std::atomic<std::uint64_t> checksum{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::vector<bench::tagged_block*> slots(slot_count, nullptr);
    std::uint64_t made = 0;
    std::uint64_t released = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      bench::tagged_block*& slot = slots[random.below(slot_count)];
      if (slot != nullptr) {
        released += bench::tagged_block::release(slot);
        slot = nullptr;
      } else {
        made += step;
        slot = bench::tagged_block::make(bench::program_size(random, smallest_bit, largest_bit), step);
      }
    }
    for (bench::tagged_block* block : slots) {
      if (block != nullptr) released += bench::tagged_block::release(block);
    }
    if (made != released) bench::fail("blocks were lost or freed twice");
    checksum.fetch_add(made, std::memory_order_relaxed);
  });
  return bench::report(seconds, checksum.load(std::memory_order_relaxed));
}
