// SPDX-License-Identifier: MIT
// Guarantee 30 where the system's pages are larger than the allocator's spans, so that one of them holds memory of several
// blocks, freed at different times: 100 MiB of blocks of 9 to 39 KB go back when all are freed, and malloc_trim() finds
// what is free although the longest free span has no whole page.
#include <malloc.h>

#include <utility>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t most_blocks = 12'000;
constexpr long patience_ms = 5000;

struct block_list {
  void** const blocks = own_array<void*>(most_blocks);
  size_t count = 0;
  random_numbers random{1};

  void fill(size_t bytes) {
    count = 0;
    for (size_t taken = 0; taken < bytes;) {
      const size_t size = 9'000 + random.below(30'000);
      TARN_CHECK(count < most_blocks, "too many blocks");
      memset(blocks[count++] = take(size), 1, size);
      taken += size;
    }
    for (size_t i = count; i > 1; --i) std::swap(blocks[i - 1], blocks[random.below(i)]);
  }
  void free_all_but(size_t left) {
    while (count > left) give(blocks[--count]);
  }
};

int freed_in_pieces() {
  block_list list;
  memset(list.blocks, 1, most_blocks * sizeof *list.blocks);
  const size_t before = resident();
  list.fill(20 * mib);
  list.free_all_but(40);
  sleep_ms(3000);
  list.fill(100 * mib);
  const size_t peak = growth(before, resident());
  list.free_all_but(list.count / 2);
  sleep_ms(400);
  list.free_all_but(0);
  size_t kept = peak;
  for (long waited = 0; kept > peak / 4 && waited < patience_ms; waited += 50) {
    sleep_ms(50);
    kept = growth(before, resident());
  }
  measured("100 MiB freed in two halves: %.1f MiB stay", in_mib(kept));
  TARN_CHECK(kept <= peak / 4, "%.1f of %.1f MiB are resident 5 s later", in_mib(kept), in_mib(peak));
  return holds;
}

int trimmed() {
  constexpr size_t pairs = 60;
  void *small[64], *freed[pairs];
  const size_t before = resident();
  for (void*& block : small) memset(block = take(9'000), 1, 9'000);
  for (void*& block : freed) {
    memset(block = take(mib), 1, mib);
    memset(take(300'000), 1, 300'000);
  }
  for (void* block : small) give(block);
  for (void* block : freed) give(block);
  malloc_trim(0);
  const size_t kept = growth(before, resident());
  measured("17 MiB live, 60 MiB trimmed: %.1f MiB resident", in_mib(kept));
  TARN_CHECK(kept <= 24 * mib, "%.1f MiB are resident after malloc_trim()", in_mib(kept));
  return holds;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  expect_good(run_in_child(60, freed_in_pieces), "blocks freed in pieces");
  expect_good(run_in_child(60, trimmed), "malloc_trim");
  return holds;
}
