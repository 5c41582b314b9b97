// SPDX-License-Identifier: MIT
// Guarantee 36, advice: a mapping of the program directly after a large block keeps its MADV_HUGEPAGE when parts of the
// block go back to the system.
#include <malloc.h>

#include "../system_probes.hpp"
#include "inject.hpp"

using namespace guarantee;

namespace {

constexpr size_t block_size = 16 * mib + 8 * kib;
constexpr size_t mapping_size = 128 * kib;

// Whether the mapping at `address` has the flag of two letters in its VmFlags.
bool has_flag(const void* address, const char* flag) {
  FILE* const maps = fopen("/proc/self/smaps", "r");
  TARN_CHECK(maps != nullptr, "no /proc/self/smaps");
  char line[512];
  bool inside = false;
  bool found = false;
  while (fgets(line, sizeof line, maps) != nullptr) {
    uintptr_t first = 0;
    uintptr_t last = 0;
    if (sscanf(line, "%lx-%lx ", &first, &last) == 2) {
      inside = reinterpret_cast<uintptr_t>(address) >= first && reinterpret_cast<uintptr_t>(address) < last;
    } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
      char wanted[8];
      snprintf(wanted, sizeof wanted, " %s", flag);
      found = strstr(line, wanted) != nullptr;
    }
  }
  fclose(maps);
  return found;
}

// How many bytes of the range are resident; parts that are not mapped count as not resident. The range is part of a
// block, which may begin at any address.
size_t resident_bytes(const char* from, size_t bytes) {
  const uintptr_t page_mask = ~static_cast<uintptr_t>(sysconf(_SC_PAGESIZE) - 1);
  const uintptr_t page_bytes = ~page_mask + 1;
  const uintptr_t end = reinterpret_cast<uintptr_t>(from) + bytes;
  size_t found = 0;
  for (uintptr_t at = reinterpret_cast<uintptr_t>(from) & page_mask; at < end; at += page_bytes) {
    unsigned char state = 0;
    if (mincore(reinterpret_cast<void*>(at), page_bytes, &state) == 0 && (state & 1) != 0)
      found += page_bytes;
  }
  return found;
}

struct neighbours {
  char* block;
  char* mapping;
};

// Maps memory directly after a block, for the first block after which there is room.
neighbours make_neighbours() {
  for (int i = 0; i < 20; ++i) {
    char* const block = static_cast<char*>(malloc(block_size));
    memset(block, 1, block_size);
    const uintptr_t end =
        (reinterpret_cast<uintptr_t>(block) + malloc_usable_size(block) + 4095) & ~uintptr_t{4095};
    void* const wanted = reinterpret_cast<void*>(end);
    void* const mapping = mmap(wanted, mapping_size, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapping == wanted) return {block, static_cast<char*>(mapping)};
    if (mapping != MAP_FAILED) munmap(mapping, mapping_size);
  }
  skip("no room after 20 blocks of 16 MiB");
}

}  // namespace

int main() {
  start();
  if (!system_probes::advice_is_carried_out()) skip("%s", system_probes::no_advice);
  // A heap large enough for tarn to ask for huge pages.
  static char* heap[40000];
  for (char*& one : heap) one = static_cast<char*>(memset(malloc(1000), 1, 1000));
  neighbours pair = make_neighbours();
  if (madvise(pair.mapping, mapping_size, MADV_HUGEPAGE) != 0)
    skip("this kernel has no huge pages to ask for");
  const char* const first_place = pair.block;
  // Cuts off parts at different times, so that one goes back while its neighbour stays.
  for (const size_t size : {12 * mib, 8 * mib, 6 * mib}) {
    pair.block = static_cast<char*>(realloc(pair.block, size));
    sleep_ms(700);
  }
  sleep_ms(2500);
  const size_t left = resident_bytes(first_place + 6 * mib, 10 * mib);
  if (tarn_trim == nullptr && left >= 5 * mib) skip("this allocator gives no part of a block back");
  TARN_CHECK(left < 5 * mib, "%.1f of the 10 MiB cut off from a block are still resident", in_mib(left));
  TARN_CHECK(has_flag(pair.mapping, "hg") && !has_flag(pair.mapping, "nh"),
             "the mapping after a block that shrank has lost MADV_HUGEPAGE");
  for (char* one : heap) free(one);
  measured("advice of 1 mapping unchanged");
  return holds;
}
