// SPDX-License-Identifier: MIT
// slots: exchange through shared slots, without any queue or lock of its own.
// Models: 16,384 shared slots; each thread allocates a block, swaps it into a random slot and frees what it
//   found there. With T threads (T-1)/T of all frees are of other threads' blocks, singly and in random
//   order.
// Idea: the "MT random" exchange of malloc torture tests (ptmalloc's t-test, SuperMalloc's suite), reduced to
//   one atomic exchange per operation.
// Known to favour: allocators that free into the freeing thread's own cache; owners' remote lists pay a cache
//   miss each.
#include "support.hpp"

namespace {

constexpr std::size_t slot_count = 16384;
constexpr std::size_t smallest_size = 16;
constexpr std::size_t largest_size = 256;

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t steps = options.scaled(28'000'000) / options.threads + 1;
  std::vector<std::atomic<bench::tagged_block*>> slots(slot_count);
  std::atomic<std::uint64_t> all_made{0};
  std::atomic<std::uint64_t> all_released{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::uint64_t made = 0;
    std::uint64_t released = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const std::uint64_t tag = random.next();
      bench::tagged_block* fresh =
          bench::tagged_block::make(smallest_size + (tag >> 40U) % (largest_size - smallest_size), tag);
      made += tag;
      // acquire/release: whoever takes the block out must see its header as its maker wrote it.
      bench::tagged_block* old = slots[random.below(slot_count)].exchange(fresh, std::memory_order_acq_rel);
      if (old != nullptr) released += bench::tagged_block::release(old);
    }
    all_made.fetch_add(made, std::memory_order_relaxed);
    all_released.fetch_add(released, std::memory_order_relaxed);
  });
  std::uint64_t released = all_released.load(std::memory_order_relaxed);
  for (auto& slot : slots) {
    bench::tagged_block* rest = slot.load(std::memory_order_relaxed);
    if (rest != nullptr) released += bench::tagged_block::release(rest);
  }
  if (released != all_made.load(std::memory_order_relaxed)) bench::fail("blocks were lost or freed twice");
  return bench::report(seconds, released);
}
