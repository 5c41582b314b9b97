// SPDX-License-Identifier: MIT
// alloc_test: random replacement in a large array of blocks, sizes as programs ask for them.
// Models: a program with a steady live set of mixed small objects and random lifetimes; each thread frees its own
// blocks.
// Idea: node.js/ITHare "alloc-test" (S. Ignatchenko et al.): size octaves of geometric probability, random
//   slots.
// Known to favour: allocators whose free touches little memory beside the block; most of the time goes to cache misses.
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
  std::vector<bench::ledger> accounts(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::vector<bench::tagged_block*> slots(slot_count, nullptr);
    bench::ledger account;
    for (std::size_t step = 0; step < steps; ++step) {
      bench::tagged_block*& slot = slots[random.below(slot_count)];
      if (slot != nullptr) {
        account.release(slot);
        slot = nullptr;
      } else {
        slot = account.make(bench::program_size(random, smallest_bit, largest_bit), step);
      }
    }
    for (bench::tagged_block* block : slots) account.release(block);
    accounts[index] = account;
  });
  return bench::report(seconds, bench::balance(accounts));
}
