// SPDX-License-Identifier: MIT
// slots: threads exchange blocks through shared slots, without a queue or a lock.
// Models: 16,384 shared slots; each thread allocates a block, swaps it into a random slot and frees the block that it
// finds there. With T threads, (T-1)/T of all frees are of other threads' blocks, one by one and in random order.
// Idea: the "MT random" exchange of malloc torture tests (ptmalloc's t-test, SuperMalloc's suite), reduced to
//   one atomic exchange per operation.
// Known to favour: allocators that free into the freeing thread's own cache; a list of remote frees per owner costs a
// cache miss each.
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
  std::vector<bench::ledger> accounts(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    bench::ledger account;
    for (std::size_t step = 0; step < steps; ++step) {
      const std::uint64_t tag = random.next();
      bench::tagged_block* fresh =
          account.make(smallest_size + (tag >> 40U) % (largest_size - smallest_size), tag);
      // acquire/release, paired with the same exchange in other threads: the thread that takes a block out sees its
      // header.
      bench::tagged_block* old = slots[random.below(slot_count)].exchange(fresh, std::memory_order_acq_rel);
      account.release(old);
    }
    accounts[index] = account;
  });
  for (auto& slot : slots) accounts[0].release(slot.load(std::memory_order_relaxed));
  return bench::report(seconds, bench::balance(accounts));
}
