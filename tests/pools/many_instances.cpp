// SPDX-License-Identifier: MIT
// A thread uses 20,000 object_pools: the last one is about as fast as the first one. The times to make and to end them
// are printed; making them may take at most 10 s.
#include <algorithm>
#include <memory>
#include <vector>

#include "program.hpp"

namespace {

using pools_test::order;
using pool = tarn::object_pool<order>;

// Nanoseconds to create and destroy an object, in the best of several rounds.
double pair_ns(pool& of) {
  constexpr int rounds = 20;
  constexpr int pairs = 1000;
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double began = guarantee::wall_seconds();
    for (int i = 0; i < pairs; ++i) of.destroy(guarantee::hide(of.create(1U)));
    best = std::min(best, (guarantee::wall_seconds() - began) * 1e9 / pairs);
  }
  return best;
}

}  // namespace

int main() {
  guarantee::start();
  constexpr std::size_t count = 20'000 / pools_test::slowdown;
  std::vector<std::unique_ptr<pool>> pools;
  const double began = guarantee::wall_seconds();
  for (std::size_t i = 0; i < count; ++i) {
    pools.push_back(std::make_unique<pool>());
    pools.back()->destroy(pools.back()->create(i));
  }
  const double made = guarantee::wall_seconds();
  const double first = pair_ns(*pools.front());
  const double last = pair_ns(*pools.back());
  const double ending = guarantee::wall_seconds();
  pools.clear();
  const double ended = guarantee::wall_seconds();
  guarantee::measured(
      "%zu pools: made and used in %.0f ms, ended in %.0f ms; a pair takes %.1f ns in the first one and "
      "%.1f ns in the last one",
      count, (made - began) * 1e3, (ended - ending) * 1e3, first, last);
  TARN_CHECK(last < 3 * first + 5,
             "a pair takes %.1f ns in the last of %zu pools and %.1f ns in the first one", last, count,
             first);
  TARN_CHECK(pools_test::slowdown > 1 || made - began < 10, "making the pools takes %.0f ms",
             (made - began) * 1e3);
  return guarantee::holds;
}
