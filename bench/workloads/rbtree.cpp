// SPDX-License-Identifier: MIT
// rbtree: one thread, a balanced tree of small nodes with payloads of their own.
// Models: an index that grows to 150,000 entries and then changes at random places for a long time: each step finds the
// node at a random key, removes it with its payload and inserts another one.
#include <map>
#include <memory>

#include "support.hpp"

namespace {

constexpr std::uint64_t key_space = 1U << 20U;
constexpr std::size_t live_nodes = 150'000;

struct payload {
  explicit payload(std::uint64_t value) : value_(value) {}
  std::uint64_t value_;
  std::uint64_t padding_[2] = {};
};

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t live = options.scaled(live_nodes, 16);
  const std::size_t steps = options.scaled(700'000) / options.threads + 1;
  std::vector<std::uint64_t> sums(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::map<std::uint64_t, std::unique_ptr<payload>> tree;
    std::uint64_t sum = 0;
    while (tree.size() < live) {
      const std::uint64_t key = random.below(key_space);
      tree.try_emplace(key, std::make_unique<payload>(key));
    }
    for (std::size_t step = 0; step < steps; ++step) {
      auto victim = tree.lower_bound(random.below(key_space));
      if (victim == tree.end()) victim = tree.begin();
      sum += victim->second->value_;
      tree.erase(victim);
      const std::uint64_t key = random.below(key_space);
      const auto inserted = tree.try_emplace(key, std::make_unique<payload>(key));
      if (!inserted.second) tree.try_emplace(key + key_space, std::make_unique<payload>(step));
    }
    sums[index] = sum + tree.size();
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  return bench::report(seconds, sum);
}
