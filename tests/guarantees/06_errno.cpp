// SPDX-License-Identifier: MIT
// Line 6: free never changes errno: for blocks of every size, freed by the thread that allocated them or by another
// one, and where the kernel refuses munmap because the table of mappings is full.
#include <errno.h>
#include <malloc.h>

#include <atomic>
#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int marks[] = {0, EINVAL, 12345};
constexpr size_t sizes[] = {1,         16,  200,     3000,     20 * kib, 70 * kib,
                            300 * kib, mib, 5 * mib, 40 * mib, 200 * mib};
size_t frees = 0;

void free_and_check(void* block, size_t size, const char* situation) {
  const int mark = marks[frees++ % 3];
  errno = mark;
  switch (frees / 3 % 4) {
    case 0:
      ::operator delete(block);
      break;
    case 1:
      ::operator delete[](block, size);
      break;
    default:
      free(block);
      break;
  }
  TARN_CHECK(errno == mark, "%s: free of %zu bytes changes errno from %d to %d", situation, size, mark,
             errno);
}

void* written_block(size_t size) {
  void* const block = malloc(size);
  TARN_CHECK(block != nullptr, "malloc(%zu) fails", size);
  memset(block, 1, size < 64 * kib ? size : 64 * kib);
  return block;
}

void free_own() {
  static void* blocks[2000];
  for (const size_t size : sizes) {
    const size_t count = size < 64 * kib ? 2000 : size <= mib ? 64 : 4;
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < count; ++i) blocks[i] = written_block(size);
      for (size_t i = 0; i < count; ++i) free_and_check(blocks[i], size, "own block");
    }
  }
  free_and_check(nullptr, 0, "null");
}

// One thread allocates, the other frees.
constexpr size_t hand_over_count = 60'000;
std::atomic<void*> hand_over[512];
std::atomic<size_t> hand_over_size[512];

void* allocate_for_other(void*) {
  random_numbers random(6);
  for (size_t i = 0; i < hand_over_count; ++i) {
    const size_t size = i % 64 == 0 ? random.below(4 * mib) + 1 : random.below(9000) + 1;
    while (hand_over[i % 512].load(std::memory_order_acquire) != nullptr) sched_yield();
    hand_over_size[i % 512].store(size, std::memory_order_relaxed);
    void* const block = malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails", size);
    hand_over[i % 512].store(block, std::memory_order_release);
  }
  return nullptr;
}

void free_remote() {
  const pthread_t producer = start_thread(allocate_for_other, nullptr);
  for (size_t i = 0; i < hand_over_count; ++i) {
    void* block = nullptr;
    while ((block = hand_over[i % 512].load(std::memory_order_acquire)) == nullptr) sched_yield();
    const size_t size = hand_over_size[i % 512].load(std::memory_order_relaxed);
    hand_over[i % 512].store(nullptr, std::memory_order_release);
    free_and_check(block, size, "another thread's block");
  }
  pthread_join(producer, nullptr);
}

// Fills the table of mappings and returns how many pages the test changed. Every second page becomes readable, so that
// the kernel cannot merge mappings.
size_t fill_mapping_table(char* area, size_t page, size_t limit) {
  size_t made = 0;
  while (made < limit && mprotect(area + made * 2 * page, page, PROT_READ) == 0) ++made;
  return made;
}

// Large blocks may lie next to each other and share one mapping: unmapping one in the middle then needs another entry
// in the table.
void free_with_full_table() {
  const size_t limit = read_number("/proc/sys/vm/max_map_count");
  if (limit == 0 || limit > 1'000'000) {
    measured("vm.max_map_count is %zu: frees with a full table of mappings were left out", limit);
    return;
  }
  constexpr size_t block_count = 60;
  constexpr size_t block_size = 4 * mib;
  static void* blocks[block_count];
  static void* small[2000];
  for (void*& block : blocks) block = written_block(block_size);
  for (void*& block : small) block = written_block(30 * kib);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t area_bytes = (limit + 16) * 2 * page;
  char* const area =
      static_cast<char*>(mmap(nullptr, area_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  TARN_CHECK(area != MAP_FAILED, "the test cannot reserve %zu bytes", area_bytes);
  const size_t made = fill_mapping_table(area, page, limit + 16);
  if (made > limit) skip("the table of mappings cannot be filled");
  for (size_t i = 0; i < block_count; i += 2) free_and_check(blocks[i], block_size, "table of mappings full");
  for (size_t i = 0; i < 2000; i += 2) free_and_check(small[i], 30 * kib, "table of mappings full");
  for (size_t i = 1; i < block_count; i += 2) free_and_check(blocks[i], block_size, "table of mappings full");
  for (size_t i = 1; i < 2000; i += 2) free_and_check(small[i], 30 * kib, "table of mappings full");
  munmap(area, area_bytes);
  for (int i = 0; i < 100; ++i)
    free_and_check(written_block(block_size), block_size, "table of mappings free again");
}

}  // namespace

int main() {
  start();
  free_own();
  free_remote();
  free_with_full_table();
  measured("%zu frees", frees);
  return holds;
}
