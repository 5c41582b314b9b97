// SPDX-License-Identifier: MIT
// reinsert: fill a container, erase it in random order, fill it again.
// Models: a container that is filled again. After erasing in random order, a free list has the nodes in that order. If
// the next fill takes them in that order, neighbours in the container are far apart in memory, and every step misses
// the cache.
// Idea: the container tests of typed-pool libraries (insert all, erase in random order, insert again), here
//   for std::unordered_set and std::list with the default allocator.
// Known to favour: allocators that keep free blocks per page and so restore address order; penalises a single LIFO
// list.
#include <list>
#include <unordered_set>

#include "support.hpp"

namespace {

constexpr std::size_t set_size = 200'000;
constexpr std::size_t list_size = 500'000;
constexpr unsigned rounds = 5;

template <class item_type>
void shuffle(std::vector<item_type>& items, bench::rng& random) {
  for (std::size_t rest = items.size(); rest > 1; --rest)
    std::swap(items[rest - 1], items[random.below(rest)]);
}

std::uint64_t refill_set(std::size_t size, bench::rng& random) {
  std::unordered_set<std::uint64_t> set;
  std::vector<std::uint64_t> keys(size);
  for (std::size_t index = 0; index < size; ++index) keys[index] = index * 0x9e3779b97f4a7c15U;
  std::uint64_t sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    for (const std::uint64_t key : keys) set.insert(key);
    for (const std::uint64_t key : set) sum += key;
    shuffle(keys, random);
    for (const std::uint64_t key : keys) set.erase(key);
  }
  return sum;
}

std::uint64_t refill_list(std::size_t size, bench::rng& random) {
  std::list<std::uint64_t> list;
  std::vector<std::list<std::uint64_t>::iterator> nodes;
  nodes.reserve(size);
  std::uint64_t sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    nodes.clear();
    for (std::size_t index = 0; index < size; ++index) nodes.push_back(list.insert(list.end(), index));
    for (int pass = 0; pass < 4; ++pass) {
      for (const std::uint64_t value : list) sum += value;
    }
    shuffle(nodes, random);
    for (const auto node : nodes) list.erase(node);
  }
  return sum;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  std::vector<std::uint64_t> sums(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    sums[index] = refill_set(options.scaled(set_size, 16) / options.threads + 1, random);
    sums[index] += refill_list(options.scaled(list_size, 16) / options.threads + 1, random);
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  return bench::report(seconds, sum);
}
