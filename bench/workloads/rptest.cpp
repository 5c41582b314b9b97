// SPDX-License-Identifier: MIT
// rptest: mixed sizes up to 16 KiB on every thread, a share of them freed by the neighbour.
// Models: threads that each hold some hundred to a thousand live blocks, free and replace them in scattered
//   order, and in every loop pass a share of their blocks to the next thread through a mailbox, which frees
//   them.
// Idea: M. Jansson's rpmalloc-benchmark (random sizes with linear and exponential falloff, cross-thread
//   option), rebuilt from its description.
// Known to favour: many size classes at low cost and caches bounded in bytes: the sizes are long, so cached
//   memory shows in peak RSS.
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

std::uint64_t free_parcel(parcel* full) {
  std::uint64_t sum = 0;
  for (bench::tagged_block* block : full->blocks) sum += bench::tagged_block::release(block);
  std::free(full);
  return sum;
}

// Linear falloff: the smaller of two uniform draws.
std::size_t falling_size(bench::rng& random) {
  return 16 + std::min(random.below(largest_size), random.below(largest_size));
}

struct sums {
  std::uint64_t made = 0;
  std::uint64_t released = 0;
};

bench::tagged_block* make(bench::rng& random, sums& total) {
  const std::uint64_t tag = random.next();
  total.made += tag;
  return bench::tagged_block::make(falling_size(random), tag);
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t loops = options.scaled(56'000) / options.threads + 1;
  std::vector<mailbox> boxes(options.threads);
  std::vector<sums> totals(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    sums& total = totals[index];
    bench::tagged_block* live[live_blocks] = {};
    for (std::size_t loop = 0; loop < loops; ++loop) {
      auto* outgoing = static_cast<parcel*>(bench::allocate(sizeof(parcel)));
      for (std::size_t item = 0; item < parcel_length; ++item) {
        bench::tagged_block*& slot = live[(loop * 97 + item * 7) % live_blocks];
        if (slot != nullptr) total.released += bench::tagged_block::release(slot);
        slot = make(random, total);
        outgoing->blocks[item] = make(random, total);
      }
      // acq_rel: the taker reads the blocks' headers; a parcel still waiting there is freed by its maker's
      // side.
      parcel* unread =
          boxes[(index + 1) % options.threads].waiting.exchange(outgoing, std::memory_order_acq_rel);
      if (unread != nullptr) total.released += free_parcel(unread);
      parcel* incoming = boxes[index].waiting.exchange(nullptr, std::memory_order_acq_rel);
      if (incoming != nullptr) total.released += free_parcel(incoming);
    }
    for (bench::tagged_block* block : live) {
      if (block != nullptr) total.released += bench::tagged_block::release(block);
    }
  });
  sums all;
  for (mailbox& box : boxes) {
    parcel* rest = box.waiting.load(std::memory_order_relaxed);
    if (rest != nullptr) all.released += free_parcel(rest);
  }
  for (const sums& each : totals) {
    all.made += each.made;
    all.released += each.released;
  }
  if (all.made != all.released) bench::fail("blocks were lost or freed twice");
  return bench::report(seconds, all.made);
}
