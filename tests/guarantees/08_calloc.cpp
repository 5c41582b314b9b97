// SPDX-License-Identifier: MIT
// Line 8: calloc returns zeroed memory, also where it reuses dirty memory, and touches no page that is already zero.
#include <malloc.h>

#include "check.hpp"

using namespace guarantee;

namespace {

size_t blocks_checked = 0;

// Fills and frees blocks of one size; calloc must then return zeroed blocks, whether it reuses that memory or not.
void reuse(size_t size, size_t count, void** blocks, size_t divisor) {
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < count; ++i) {
      blocks[i] = malloc(size);
      TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) fails", size);
      memset(blocks[i], 0xff, malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < count; ++i) free(blocks[i]);
    for (size_t i = 0; i < count; ++i) {
      blocks[i] = calloc(size / divisor, divisor);
      const size_t asked = size / divisor * divisor;
      TARN_CHECK(blocks[i] != nullptr, "calloc(%zu, %zu) fails", size / divisor, divisor);
      const size_t place = first_nonzero(blocks[i], asked);
      TARN_CHECK(place == asked, "calloc of %zu bytes: byte %zu of %p is not zero", asked, place, blocks[i]);
      memset(blocks[i], 0xee, malloc_usable_size(blocks[i]));
      ++blocks_checked;
    }
    for (size_t i = 0; i < count; ++i) free(blocks[i]);
  }
}

void reuse_all_sizes() {
  void** const blocks = own_array<void*>(2000);
  for (size_t size = 8; size <= 2048; size += 8) reuse(size, 40, blocks, 8);
  for (size_t size = 4 * kib; size <= 64 * mib; size *= 2) {
    for (const size_t exact : {size, size + 24, size + size / 2}) {
      reuse(exact, size <= 64 * kib ? 20 : size <= mib ? 6 : 2, blocks, 1);
    }
  }
  // A dirty block that is cut into smaller ones, and small ones that coalesce to a large one.
  reuse(8 * mib, 4, blocks, 1);
  reuse(100, 2000, blocks, 4);
  reuse(mib + 4096, 8, blocks, 1);
}

void touches_nothing(size_t size, size_t allowed) {
  const size_t before = rss_bytes();
  char* const block = static_cast<char*>(calloc(1, size));
  if (block == nullptr) skip("the system refuses %.0f MiB of address space", in_mib(size));
  const size_t grown = growth(before, rss_bytes());
  measured("calloc of %.0f MiB: + %.2f MiB resident", in_mib(size), in_mib(grown));
  TARN_CHECK(grown < allowed, "calloc of %.0f MiB makes %.1f MiB resident", in_mib(size), in_mib(grown));
  for (size_t place = 0; place < size; place += 16 * mib) {
    TARN_CHECK(first_nonzero(block + place, 64) == 64, "calloc of %.0f MiB is not zero at %zu", in_mib(size),
               place);
  }
  free(block);
}

// Allocates and frees blocks one after the other and writes 8 pages of each: only the memory of the last block may stay
// resident.
int stays_sparse() {
  constexpr size_t size = 100 * mib;
  const size_t before = rss_bytes();
  for (int round = 0; round < 40; ++round) {
    char* const block = static_cast<char*>(hide(calloc(size, 1)));
    TARN_CHECK(block != nullptr, "calloc(100 MiB) fails");
    for (size_t place = 0; place < size; place += size / 8) {
      TARN_CHECK(first_nonzero(block + place, 4096) == 4096, "calloc of a sparse block: not zero at %zu",
                 place);
      block[place] = 1;
    }
    const size_t grown = growth(before, rss_bytes());
    TARN_CHECK(grown < 8 * mib, "8 pages of 100 MiB written: calloc makes %.1f MiB resident", in_mib(grown));
    free(block);
  }
  // Writes every second page: purging single pages is not worth a system call each, yet the block is not all zero.
  for (int round = 0; round < 2; ++round) {
    char* const block = static_cast<char*>(hide(calloc(size, 1)));
    TARN_CHECK(block != nullptr && first_nonzero(block, size) == size,
               "calloc of a half-written block is not zero");
    for (size_t place = 0; place < size; place += 2 * 4096) memset(block + place, 1, 4096);
    free(block);
  }
  return holds;
}

}  // namespace

int main() {
  start();
  const bool own_figures = system_probes::memory_figures_are_own();
  expect_good(run_in_child(60,
                           [own_figures] {
                             if (!own_figures) return holds;
                             touches_nothing(64 * mib, 2 * mib);
                             touches_nothing(3 * gib, 4 * mib);
                             return holds;
                           }),
              "calloc of fresh memory");
  if (own_figures && !huge_pages_everywhere()) expect_good(run_in_child(60, stays_sparse), "sparse blocks");
  reuse_all_sizes();
  measured("%zu blocks zero on reuse", blocks_checked);
  if (!own_figures) skip("%s; zeroes were checked", system_probes::foreign_memory);
  return holds;
}
