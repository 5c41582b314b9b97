// SPDX-License-Identifier: MIT
// size_drift: the number of live bytes stays constant while the sizes of the blocks drift.
// Models: a cache whose typical object slowly grows and then shrinks: in each phase blocks of the next size replace the
// oldest ones. One in 64 blocks of every phase stays to the end, in runs of 512, because objects that live long are
// often allocated together.
// Idea: the fragmentation studies of M. Johnstone and P. Wilson (ISMM 1998) and jemalloc's early fragmentation tests;
// the figure that matters is the peak RSS.
// Known to favour: allocators that make free memory of one size class available to all others (coalescing); penalises
// slabs that are never given back.
#include <deque>

#include "support.hpp"

namespace {

constexpr std::size_t live_bytes = 24U << 20U;
constexpr std::size_t first_size = 40;
constexpr std::size_t phases = 24;
constexpr std::size_t pin_interval = 32768;  // of each run of 32,768 blocks ...
constexpr std::size_t pin_length = 512;      // ... the first 512 stay to the end

// Grows by about a quarter per phase for the first half, then shrinks again.
std::size_t phase_size(std::size_t phase) {
  double size = static_cast<double>(first_size);
  const std::size_t steps = phase < phases / 2 ? phase : phases - phase;
  for (std::size_t step = 0; step < steps; ++step) size *= 1.27;
  return static_cast<std::size_t>(size);
}

class drifting_cache {
 public:
  drifting_cache(std::uint64_t seed, std::size_t budget) : random_(seed), budget_(budget) {}

  // Replaces about all of the live set by blocks of this phase's size.
  void turn_over(std::size_t size) {
    for (std::size_t turned = 0; turned < budget_;) {
      const std::size_t wanted = size + random_.below(size / 4 + 1);
      while (live_size_ + wanted > budget_ && !live_.empty()) evict();
      turned += wanted;
      bench::tagged_block* fresh = account_.make(wanted, turned);
      if (serial_++ % pin_interval < pin_length) {
        pinned_.push_back(fresh);
      } else {
        live_.push_back(fresh);
        live_size_ += fresh->size;
      }
    }
  }

  // Frees all blocks and returns the account.
  bench::ledger clear() {
    while (!live_.empty()) evict();
    for (bench::tagged_block* block : pinned_) account_.release(block);
    return account_;
  }

 private:
  // Frees a random block of the oldest eighth: nearly first in, first out, as in a cache under steady load.
  void evict() {
    const std::size_t chosen = random_.below(live_.size() / 8 + 1);
    std::swap(live_[chosen], live_.front());
    live_size_ -= live_.front()->size;
    account_.release(live_.front());
    live_.pop_front();
  }

  bench::rng random_;
  std::size_t budget_;
  std::deque<bench::tagged_block*> live_;
  std::vector<bench::tagged_block*> pinned_;
  std::size_t live_size_ = 0;
  std::size_t serial_ = 0;
  bench::ledger account_;
};

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t budget = options.scaled(live_bytes, 1U << 16U) / options.threads;
  std::vector<bench::ledger> accounts(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    drifting_cache cache(index, budget);
    for (std::size_t phase = 0; phase < phases; ++phase) cache.turn_over(phase_size(phase));
    accounts[index] = cache.clear();
  });
  return bench::report(seconds, bench::balance(accounts));
}
