// SPDX-License-Identifier: MIT
// Guarantee 38: the time for an allocation does not grow with the number of free blocks that are a little too short:
// beside 40,000 free blocks of 512 KiB, malloc(528 KiB) takes at most twice as long as in an empty heap.
#include <algorithm>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t free_blocks = 40'000;
constexpr size_t shorter = 512 * kib;
constexpr size_t asked = 528 * kib;
constexpr size_t bound = 2;
constexpr int rounds = 4;

// Seconds per malloc of a block that stays live. The median of many batches, because other programs disturb some.
double price_of_malloc() {
  constexpr size_t batches = 101;
  constexpr size_t together = 20;
  double prices[batches];
  for (double& price : prices) {
    const double began = wall_seconds();
    for (size_t i = 0; i < together; ++i) TARN_CHECK(take(asked) != nullptr, "malloc(528 KiB) fails");
    price = (wall_seconds() - began) / together;
  }
  std::sort(prices, prices + batches);
  return prices[batches / 2];
}

int measure_into(double* price, bool beside) {
  auto* const keepers = own_array<void*>(free_blocks);
  auto* const blocks = own_array<void*>(free_blocks);
  for (size_t i = 0; beside && i < free_blocks; ++i) {
    blocks[i] = take(shorter);
    keepers[i] = take(300 * kib);  // keeps free blocks from coalescing
    if (blocks[i] == nullptr || keepers[i] == nullptr) skip("the system refuses 31 GiB of address space");
  }
  for (size_t i = 0; beside && i < free_blocks; ++i) give(blocks[i]);
  *price = price_of_malloc();
  return holds;
}

}  // namespace

int main() {
  start();
  auto* const prices = shared_with_children<double[2]>();
  double empty = 0;
  double beside = 0;
  // Other programs may disturb one of both; a cost that grows with the free blocks is there each time.
  for (int round = 0; round < rounds && (round == 0 || beside > bound * empty); ++round) {
    expect_good(run_in_child(100, [=] { return measure_into(&(*prices)[0], false); }), "an empty heap");
    expect_good(run_in_child(100, [=] { return measure_into(&(*prices)[1], true); }), "beside free blocks");
    empty = (*prices)[0] * 1e6;
    beside = (*prices)[1] * 1e6;
  }
  measured("malloc(528 KiB): %.2f us; beside %zu free blocks of 512 KiB: %.2f us", empty, free_blocks,
           beside);
  TARN_CHECK(beside <= bound * empty,
             "malloc(528 KiB) takes %.1f times as long beside %zu free blocks of 512 KiB", beside / empty,
             free_blocks);
  return holds;
}
