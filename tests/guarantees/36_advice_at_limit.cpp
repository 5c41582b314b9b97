// SPDX-License-Identifier: MIT
// Line 36 where address space is limited: tarn's reservations then need not end at a huge page. A mapping of the
// program right after the guard of such a reservation keeps its advice (MADV_HUGEPAGE) when the heap's memory before
// the guard goes back.
#include <malloc.h>
#include <sys/mman.h>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t block_bytes = 300'000;
constexpr size_t most_blocks = 4096;
constexpr size_t huge_page = 2 * mib;
constexpr size_t guard = 64 * kib;
constexpr size_t most_ranges = 4096;

struct range {
  uintptr_t start;
  uintptr_t end;
  bool is_writable;
};
range ranges[most_ranges];
unsigned char* blocks[most_blocks];

// Whether the flags of the mapping at `address` contain `flag`: "hg" for MADV_HUGEPAGE, "nh" for MADV_NOHUGEPAGE.
bool has_flag(uintptr_t address, const char* flag) {
  FILE* const maps = fopen("/proc/self/smaps", "re");
  if (maps == nullptr) skip("no /proc/self/smaps");
  static char line[512];
  bool inside = false;
  bool found = false;
  while (fgets(line, sizeof line, maps) != nullptr) {
    uintptr_t start = 0;
    uintptr_t end = 0;
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
      inside = address >= start && address < end;
    } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
      found = strstr(line, flag) != nullptr;
    }
  }
  fclose(maps);
  return found;
}

size_t read_ranges() {
  FILE* const maps = fopen("/proc/self/maps", "re");
  static char line[512];
  size_t count = 0;
  while (fgets(line, sizeof line, maps) != nullptr && count < most_ranges) {
    char rights[8];
    range& one = ranges[count];
    if (sscanf(line, "%lx-%lx %7s", &one.start, &one.end, rights) != 3) continue;
    one.is_writable = rights[0] == 'r' && rights[1] == 'w';
    ++count;
  }
  fclose(maps);
  return count;
}

// A heap of some size, so that tarn asks for huge pages, then blocks until the address space is full.
size_t fill_address_space() {
  for (int i = 0; i < 60'000; ++i) memset(take(1000), 1, 1000);
  rlimit before = {};
  getrlimit(RLIMIT_AS, &before);
  const rlimit limit{address_space() + 301 * mib, before.rlim_max};
  if (setrlimit(RLIMIT_AS, &limit) != 0) skip("setrlimit: %s", strerror(errno));
  size_t count = 0;
  while (count < most_blocks &&
         (blocks[count] = static_cast<unsigned char*>(malloc(block_bytes))) != nullptr) {
    memset(blocks[count++], 1, block_bytes);
  }
  setrlimit(RLIMIT_AS, &before);
  return count;
}

void free_blocks_between(uintptr_t start, uintptr_t end, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(blocks[i]);
    if (at == 0 || at >= end || at + block_bytes <= start) continue;
    free(blocks[i]);
    blocks[i] = nullptr;
  }
}

// The program's own mapping from the guard at `end` to the next huge page. False: something else lies there.
bool check_beside(uintptr_t end, size_t count) {
  const uintptr_t own = end + guard;
  const uintptr_t own_end = (end + huge_page - 1) & ~(huge_page - 1);
  void* const memory = mmap(reinterpret_cast<void*>(own), own_end - own, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != reinterpret_cast<void*>(own) || madvise(memory, own_end - own, MADV_HUGEPAGE) != 0)
    return false;
  free_blocks_between(end & ~(huge_page - 1), end, count);
  malloc_trim(0);
  TARN_CHECK(has_flag(own, " hg") && !has_flag(own, " nh"),
             "the program's mapping %zu KiB after a huge page boundary has lost its advice MADV_HUGEPAGE",
             (own % huge_page) / kib);
  return true;
}

}  // namespace

int main() {
  start();
  need_address_space_limits();
  const size_t blocks_taken = fill_address_space();
  const size_t count = read_ranges();
  int checked = 0;
  for (size_t i = 0; i + 1 < count; ++i) {
    const uintptr_t end = ranges[i].end;
    const bool is_guarded = ranges[i].is_writable && !ranges[i + 1].is_writable &&
                            ranges[i + 1].start == end && ranges[i + 1].end - end == guard;
    if (is_guarded && end % huge_page != 0 && end % huge_page + guard < huge_page)
      checked += check_beside(end, blocks_taken) ? 1 : 0;
  }
  if (checked == 0) skip("no reservation ends inside a huge page");
}
