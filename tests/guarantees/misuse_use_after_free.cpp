// SPDX-License-Identifier: MIT
// Misuse, fast build: if a program writes to every byte of freed blocks (where other allocators keep the links of their
// free lists), malloc hands out no address of the writer's choice and no block twice, and does not crash.
#include <sys/uio.h>

#include "misuse.hpp"

using namespace guarantee;

namespace {

constexpr size_t sizes[] = {8,    16,   32,   64,       100,       200,       512,
                            1000, 2000, 5000, 20 * kib, 100 * kib, 600 * kib, 3 * mib};
constexpr size_t decoy_bytes = 1 * mib;
char* decoy = nullptr;

// What an attacker would write: an address of their choice, an address inside a live block, various constants.
enum class pattern { decoy_address, live_block_address, next_to_itself, ones, letters, zero };
constexpr pattern patterns[] = {pattern::decoy_address,  pattern::live_block_address,
                                pattern::next_to_itself, pattern::ones,
                                pattern::letters,        pattern::zero};
constexpr const char* pattern_names[] = {
    "an address of the writer's", "a live block's address", "its own address", "all ones", "letters", "zero"};

uint64_t word_of(pattern p, const void* live_block, const void* freed) {
  switch (p) {
    case pattern::decoy_address: return reinterpret_cast<uintptr_t>(decoy + decoy_bytes / 2);
    case pattern::live_block_address: return reinterpret_cast<uintptr_t>(live_block);
    case pattern::next_to_itself: return reinterpret_cast<uintptr_t>(freed);
    case pattern::ones: return ~uint64_t{0};
    case pattern::letters: return 0x4141414141414141U;
    case pattern::zero: break;
  }
  return 0;
}

// Writes through the kernel, so that unmapped memory causes no fault; page by page, so that an unmapped page leaves out
// only itself.
void overwrite(void* block, size_t size, uint64_t word) {
  static uint64_t words[512];
  for (uint64_t& w : words) w = word;
  for (size_t done = 0; done < size;) {
    const uintptr_t place = reinterpret_cast<uintptr_t>(block) + done;
    const size_t to_page_end = 4096 - place % 4096;
    const size_t part = size - done < to_page_end ? size - done : to_page_end;
    const iovec from{words, part};
    const iovec to{reinterpret_cast<void*>(place), part};
    process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    done += part;
  }
}

bool can_write_through_kernel() {
  uint64_t target = 0;
  overwrite(&target, 8, 7);
  return target == 7;
}

// Frees many blocks, overwrites all of them, and judges the blocks that malloc then returns. `keep` of every 8 blocks
// stay live, so that spans stay partly used.
void write_after_free(size_t size, pattern p, size_t keep) {
  const size_t count = size <= 4096 ? 3000 : size <= 128 * kib ? 200 : 12;
  void** const blocks = own_array<void*>(count);
  bystanders live;
  live.allocate(size);
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = malloc(size);
    TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) fails", size);
    stamp(blocks[i], i, 0, size);
  }
  for (size_t i = 0; i < count; ++i) {
    if (i % 8 >= keep) free(blocks[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (i % 8 < keep) continue;
    misused(blocks[i]);
    overwrite(blocks[i], size, word_of(p, live.blocks_[0], blocks[i]));
  }
  const forbidden_range forbidden[] = {{"the address that was written", decoy, decoy + decoy_bytes}};
  no_harm({size, forbidden, 1});
  for (size_t i = 0; i < count; ++i) {
    if (i % 8 >= keep) continue;
    TARN_CHECK(stamped(blocks[i], i, size), "the live block %p has changed", blocks[i]);
    free(blocks[i]);
  }
  live.check("after allocating more");
  live.free_all();
  TARN_CHECK(first_nonzero(decoy, decoy_bytes) == decoy_bytes,
             "memory at the written address has been changed");
  allocate_and_judge({size, forbidden, 1});
}

}  // namespace

int main() {
  start();
  if (!can_write_through_kernel()) skip("process_vm_writev to the own process is not permitted");
  decoy = own_array<char>(decoy_bytes);
  misuse_tally tally;
  for (const size_t size : sizes) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i) {
      for (const size_t keep : {size_t{0}, size_t{3}}) {
        char name[128];
        snprintf(name, sizeof name, "%s written to freed blocks of %zu bytes", pattern_names[i], size);
        misuse_case(name, tally, [=] { write_after_free(size, patterns[i], keep); });
      }
    }
  }
  return finish(tally);
}
