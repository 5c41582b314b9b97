// SPDX-License-Identifier: MIT
// Guarantee 36, advice: a mapping of the program's right behind a large block keeps the advice that the program gave it
// (MADV_HUGEPAGE) when parts of the block go back to the system.
#include <malloc.h>

#include "../system_probes.hpp"
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t block_size = 16 * mib + 8 * kib;
constexpr size_t mapping_size = 128 * kib;

// Whether the mapping at `address` has the flag, by its two letters.
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

struct neighbours {
  char* block;
  char* mapping;
};

// A mapping of the program's that begins where a block ends, where the kernel has left room.
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
  skip("no room behind 20 blocks of 16 MiB");
}

}  // namespace

int main() {
  start();
  if (!system_probes::advice_is_carried_out()) skip("%s", system_probes::no_advice);
  // A heap that asks for huge pages.
  static char* heap[40000];
  for (char*& one : heap) one = static_cast<char*>(memset(malloc(1000), 1, 1000));
  neighbours pair = make_neighbours();
  if (madvise(pair.mapping, mapping_size, MADV_HUGEPAGE) != 0)
    skip("this kernel has no huge pages to ask for");
  // Parts of different ages: one goes back while the next to it stays.
  for (const size_t size : {12 * mib, 8 * mib, 6 * mib}) {
    pair.block = static_cast<char*>(realloc(pair.block, size));
    sleep_ms(700);
  }
  sleep_ms(2500);
  TARN_CHECK(has_flag(pair.mapping, "hg") && !has_flag(pair.mapping, "nh"),
             "the mapping behind a block that shrank has lost MADV_HUGEPAGE");
  for (char* one : heap) free(one);
  measured("advice of 1 mapping unchanged");
  return holds;
}
