// SPDX-License-Identifier: MIT
// mstress: rounds in which the live set grows and shrinks, while threads exchange some of the blocks.
// Models: in each round every thread builds arrays of blocks of mixed sizes, frees about half of them in random order
// whenever there are many, and exchanges some through a shared table. Between rounds the threads end and new ones
// start.
// Idea: D. Leijen's mimalloc stress test (mimalloc, test/test-stress), rewritten from its description.
// Known to favour: allocators that quickly reuse the memory of ended threads; penalises arenas that belong to threads.
#include "support.hpp"

namespace {

constexpr unsigned rounds = 10;
constexpr std::size_t table_size = 4096;
constexpr std::size_t cookie_interval = 5;  // one block in 5 goes through the shared table

using table = std::vector<std::atomic<bench::tagged_block*>>;

std::size_t stress_size(bench::rng& random) {
  // Mostly small; one in a hundred of some KiB, one in 8,192 of up to 256 KiB.
  const std::size_t dice = random.below(8192);
  if (dice == 0) return random.between(32 * 1024, 256 * 1024);
  if (dice < 80) return random.between(1024, 16 * 1024);
  return random.between(16, 256);
}

bench::tagged_block* make(bench::rng& random, bench::ledger& account) {
  const std::uint64_t tag = random.next();
  return account.make(stress_size(random), tag);
}

// Releases about half of `live` in random order and compacts it.
void thin_out(std::vector<bench::tagged_block*>& live, bench::rng& random, bench::ledger& account) {
  for (std::size_t rest = live.size() / 2; rest > 0; --rest) {
    bench::tagged_block*& victim = live[random.below(live.size())];
    account.release(victim);
    victim = live.back();
    live.pop_back();
  }
}

bench::ledger stress_round(table& shared, std::uint64_t seed, std::size_t operations) {
  bench::rng random(seed);
  // A second generator for what to free: how often that happens depends on the schedule, and sizes and tags must not.
  bench::rng victims(~seed);
  bench::ledger account;
  std::vector<bench::tagged_block*> live;
  for (std::size_t step = 0; step < operations; ++step) {
    live.push_back(make(random, account));
    if (step % cookie_interval == 0) {
      auto& slot = shared[random.below(table_size)];
      // acquire/release, paired with the same exchange in other threads: the taker reads a header that another thread
      // wrote.
      live.back() = slot.exchange(live.back(), std::memory_order_acq_rel);
      if (live.back() == nullptr) live.pop_back();
    }
    if (live.size() >= 2000) thin_out(live, victims, account);
  }
  for (bench::tagged_block* block : live) account.release(block);
  return account;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t operations = options.scaled(30'000'000) / options.threads / rounds + 1;
  table shared(table_size);
  std::vector<bench::ledger> accounts(options.threads);
  double seconds = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    seconds += bench::run_threads(options.threads, [&](unsigned index) {
      const bench::ledger mine =
          stress_round(shared, std::uint64_t{round} * options.threads + index, operations);
      accounts[index].made += mine.made;
      accounts[index].released += mine.released;
    });
  }
  for (auto& slot : shared) accounts[0].release(slot.load(std::memory_order_relaxed));
  return bench::report(seconds, bench::balance(accounts));
}
