// SPDX-License-Identifier: MIT
// rptest: mixed sizes up to 16 KiB in every thread; neighbour threads free a share of the blocks.
// Models: threads that each have 1,000 live blocks, free and replace them in scattered order, and in every loop pass
// 100 new blocks through a mailbox to the next thread, which frees them.
// Idea: M. Jansson's rpmalloc-benchmark (random sizes with linear and exponential falloff, cross-thread option),
// rebuilt from its description.
// Known to favour: many size classes at low cost, and caches bounded in bytes: the blocks are long, so cached memory
// shows in the peak RSS.
#include "support.hpp"

namespace {

constexpr std::size_t live_blocks = 1000;
constexpr std::size_t parcel_length = 100;
constexpr std::size_t largest_size = 16'000;

struct parcel {
  bench::tagged_block* blocks[parcel_length];
};

struct alignas(64) mailbox {
  std::atomic<parcel*> waiting{nullptr};
};

void free_parcel(parcel* full, bench::ledger& account) {
  if (full == nullptr) return;
  for (bench::tagged_block* block : full->blocks) account.release(block);
  std::free(full);
}

// Linear falloff: the smaller of two uniform draws.
std::size_t falling_size(bench::rng& random) {
  return 16 + std::min(random.below(largest_size), random.below(largest_size));
}

bench::tagged_block* make(bench::rng& random, bench::ledger& account) {
  const std::uint64_t tag = random.next();
  return account.make(falling_size(random), tag);
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t loops = options.scaled(56'000) / options.threads + 1;
  std::vector<mailbox> boxes(options.threads);
  std::vector<bench::ledger> accounts(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    bench::ledger account;
    mailbox& neighbour = boxes[(index + 1) % options.threads];
    bench::tagged_block* live[live_blocks] = {};
    for (std::size_t loop = 0; loop < loops; ++loop) {
      auto* outgoing = static_cast<parcel*>(bench::allocate(sizeof(parcel)));
      for (std::size_t item = 0; item < parcel_length; ++item) {
        bench::tagged_block*& slot = live[(loop * 97 + item * 7) % live_blocks];
        account.release(slot);
        slot = make(random, account);
        outgoing->blocks[item] = make(random, account);
      }
      // acq_rel, paired with the neighbour's exchange: the taker reads the blocks' headers. A parcel that the neighbour
      // has not taken comes back here and is freed.
      free_parcel(neighbour.waiting.exchange(outgoing, std::memory_order_acq_rel), account);
      free_parcel(boxes[index].waiting.exchange(nullptr, std::memory_order_acq_rel), account);
    }
    for (bench::tagged_block* block : live) account.release(block);
    accounts[index] = account;
  });
  for (mailbox& box : boxes) free_parcel(box.waiting.load(std::memory_order_relaxed), accounts[0]);
  return bench::report(seconds, bench::balance(accounts));
}
