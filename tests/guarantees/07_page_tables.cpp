// SPDX-License-Identifier: MIT
// Line 7: growing a huge block moves page tables, not bytes. A block of 256 MiB that cannot grow in place is grown:
// that takes far less processor time than a copy, and the old and the new place are never resident at the same time.
#include "../system_probes.hpp"
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t block_size = 256 * mib;

double seconds_to_copy() {
  char* const from = own_array<char>(block_size);
  char* const to = own_array<char>(block_size);
  memset(from, 1, block_size);
  const double began = cpu_seconds();
  memcpy(to, from, block_size);
  const double took = cpu_seconds() - began;
  munmap(from, block_size);
  munmap(to, block_size);
  return took;
}

// Maps a page after the block, so that the block cannot grow in place.
void* block_in_the_way(void* block, size_t size) {
  char* const end = static_cast<char*>(block) + (size + 4 * mib);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* place = end - reinterpret_cast<uintptr_t>(end) % page;
  mmap(place, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  return place;
}

// Grows the block in one step. Run in a child, whose peak of resident memory is its own.
int grow_once() {
  void* block = malloc(block_size);
  TARN_CHECK(block != nullptr, "malloc(256 MiB) fails");
  stamp(block, 7, 0, block_size);
  block_in_the_way(block, block_size);
  const size_t peak_before = peak_rss_bytes();
  const double began = cpu_seconds();
  block = realloc(block, 3 * block_size);
  const double took = cpu_seconds() - began;
  TARN_CHECK(block != nullptr, "realloc to 768 MiB fails");
  const size_t peak_growth = growth(peak_before, peak_rss_bytes());
  TARN_CHECK(stamped(block, 7, block_size), "growing 256 MiB to 768 MiB changes the content");
  const double copy = seconds_to_copy();
  measured("growing 256 to 768 MiB: %.2f ms (a copy takes %.0f ms), peak + %.1f MiB", took * 1e3, copy * 1e3,
           in_mib(peak_growth));
  TARN_CHECK(peak_growth < 16 * mib, "growing 256 MiB makes both places resident: the peak grows by %.0f MiB",
             in_mib(peak_growth));
  TARN_CHECK(took < copy / 4, "growing 256 MiB takes %.1f ms, copying it %.1f ms", took * 1e3, copy * 1e3);
  free(block);
  return holds;
}

// Grows two blocks in turn by many steps, each of which writes only the new bytes. The blocks are in each other's way.
int grow_in_steps() {
  char* blocks[2] = {nullptr, nullptr};
  constexpr size_t step = 2 * mib;
  double spent = 0;
  const double copy = seconds_to_copy();
  for (size_t size = step; size <= block_size; size += step) {
    for (char*& block : blocks) {
      const double began = cpu_seconds();
      block = static_cast<char*>(realloc(block, size));
      spent += cpu_seconds() - began;
      TARN_CHECK(block != nullptr, "realloc to %zu fails", size);
      stamp(block, 9, size - step, size);
    }
  }
  for (char* block : blocks) {
    TARN_CHECK(stamped(block, 9, block_size), "growing in steps changes the content");
    free(block);
  }
  const double copies = spent / copy;
  measured("growing 2 x 256 MiB by 2 MiB at a time: %.1f ms in realloc, %.1f copies of 256 MiB", spent * 1e3,
           copies);
  TARN_CHECK(copies < 4, "growing 2 x 256 MiB in 128 steps costs as much as %.0f copies of it", copies);
  return holds;
}

}  // namespace

int main() {
  start();
  if (!system_probes::moved_pages_go_where_asked()) skip("%s", system_probes::no_moving);
  expect_good(run_in_child(60, grow_once), "growing once");
  expect_good(run_in_child(60, grow_in_steps), "growing in steps");
  return holds;
}
