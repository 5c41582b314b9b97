// SPDX-License-Identifier: MIT
// Lines 7 and 8: what realloc keeps and calloc clears.
#include "contract.hpp"

namespace contract {
namespace {

// ---- line 7 ----

struct slot {
  void* start;
  size_t size;
  uint64_t seed;
};

// Resizes the block, checks every byte that must have survived, and stamps the new ones.
void resize(slot& s, size_t size, bool by_array) {
  void* const moved = by_array ? f.reallocarray(s.start, size / 5, 5) : f.realloc(s.start, size);
  if (by_array) size = size / 5 * 5;
  TARN_CHECK(moved != nullptr, "realloc from %zu to %zu fails", s.size, size);
  TARN_CHECK(aligned_to(moved, size >= 16 ? 16 : 8), "realloc from %zu to %zu gives %p", s.size, size, moved);
  TARN_CHECK(f.usable_size(moved) >= size, "realloc to %zu: %zu usable", size, f.usable_size(moved));
  const size_t kept = s.size < size ? s.size : size;
  const size_t wrong = first_difference(moved, s.seed, kept);
  TARN_CHECK(wrong == kept, "realloc from %zu to %zu loses byte %zu", s.size, size, wrong);
  stamp(moved, s.seed, kept, size);
  s.start = moved;
  s.size = size;
}

void replace_by_aligned(slot& s, random_numbers& random) {
  f.free(s.start);
  const size_t alignment = size_t{16} << random.below(13);
  s.size = random.size_up_to_bits(16) + 16;
  s.start = f.memalign(alignment, s.size);
  TARN_CHECK(s.start != nullptr && aligned_to(s.start, alignment), "memalign(%zu, %zu)", alignment, s.size);
  stamp(s.start, s.seed, 0, s.size);
}

size_t random_steps(size_t slot_count, unsigned bits, size_t steps) {
  slot* const slots = own_array<slot>(slot_count);
  random_numbers random(bits);
  for (size_t i = 0; i < slot_count; ++i) slots[i].seed = i * 1'000'003 + bits;
  for (size_t step = 0; step < steps; ++step) {
    slot& s = slots[random.below(slot_count)];
    const size_t choice = random.below(16);
    if (choice == 0 && bits <= 22) {
      replace_by_aligned(s, random);
    } else if (choice < 5 && s.size > 64) {
      resize(s, s.size + random.below(s.size / 8 + 1), false);  // a small step
      if (s.size > size_t{1} << bits) resize(s, 16, false);
    } else {
      resize(s, random.size_up_to_bits(bits) + 15, choice == 15);
    }
  }
  for (size_t i = 0; i < slot_count; ++i) {
    TARN_CHECK(stamped(slots[i].start, slots[i].seed, slots[i].size),
               "a neighbour's realloc changes a block");
    f.free(slots[i].start);
  }
  munmap(slots, slot_count * sizeof(slot));
  return steps;
}

}  // namespace

void realloc_keeps_every_byte() {
  const size_t factor = long_run() ? 50 : 1;
  const size_t divisor = quick ? 10 : 1;
  size_t steps = random_steps(500, 12, 300'000 * factor / divisor);
  steps += random_steps(100, 18, 30'000 * factor / divisor);
  steps += random_steps(20, 23, 2000 * factor / divisor);
  if (!quick) steps += random_steps(2, 29, 150 * factor);
  measured("%zu steps, 16 B to %d MiB, every byte kept", steps, quick ? 8 : 512);
}

// ---- line 8 ----

namespace {

size_t blocks_checked = 0;

// Fills and frees blocks of one size; calloc must then return zeroed blocks, whether it reuses that memory or not.
void reuse(size_t size, size_t count, void** blocks, size_t divisor) {
  for (int round = 0; round < (quick ? 1 : 3); ++round) {
    for (size_t i = 0; i < count; ++i) {
      blocks[i] = f.malloc(size);
      TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) fails", size);
      memset(blocks[i], 0xff, f.usable_size(blocks[i]));
    }
    for (size_t i = 0; i < count; ++i) f.free(blocks[i]);
    for (size_t i = 0; i < count; ++i) {
      blocks[i] = f.calloc(size / divisor, divisor);
      const size_t asked = size / divisor * divisor;
      TARN_CHECK(blocks[i] != nullptr, "calloc(%zu, %zu) fails", size / divisor, divisor);
      const size_t place = first_nonzero(blocks[i], asked);
      TARN_CHECK(place == asked, "calloc of %zu bytes: byte %zu of %p is not zero", asked, place, blocks[i]);
      memset(blocks[i], 0xee, f.usable_size(blocks[i]));
      ++blocks_checked;
    }
    for (size_t i = 0; i < count; ++i) f.free(blocks[i]);
  }
}

}  // namespace

void calloc_gives_zeroes() {
  void** const blocks = own_array<void*>(2000);
  for (const size_t size : {size_t{1}, size_t{2}, size_t{5}}) reuse(size, 40, blocks, 1);
  for (size_t size = 8; size <= 2048; size += 8) reuse(size, 40, blocks, 8);
  for (size_t size = 4 * kib; size <= (quick ? 4 : 64) * mib; size *= 2) {
    for (const size_t exact : {size, size + 24, size + size / 2})
      reuse(exact, size <= 64 * kib ? 20 : size <= mib ? 6 : 2, blocks, 1);
  }
  // A dirty block that is cut into smaller ones, and small ones that coalesce to a large one.
  reuse(8 * mib, 4, blocks, 1);
  reuse(100, 2000, blocks, 4);
  reuse(mib + 4096, 8, blocks, 1);
  measured("%zu blocks zero on reuse", blocks_checked);
}

namespace {

void touches_nothing(size_t size, size_t allowed) {
  const size_t before = rss_bytes();
  char* const block = static_cast<char*>(f.calloc(1, size));
  if (block == nullptr) skip("the system refuses %.0f MiB of address space", in_mib(size));
  const size_t grown = growth(before, rss_bytes());
  measured("calloc of %.0f MiB: + %.2f MiB resident", in_mib(size), in_mib(grown));
  TARN_CHECK(grown < allowed, "calloc of %.0f MiB makes %.1f MiB resident", in_mib(size), in_mib(grown));
  for (size_t place = 0; place < size; place += 16 * mib) {
    TARN_CHECK(first_nonzero(block + place, 64) == 64, "calloc of %.0f MiB is not zero at %zu", in_mib(size),
               place);
  }
  f.free(block);
}

// Allocates and frees blocks one after the other and writes 8 pages of each: only the memory of the last block may stay
// resident.
void stays_sparse() {
  constexpr size_t size = 100 * mib;
  const size_t before = rss_bytes();
  for (int round = 0; round < 40; ++round) {
    char* const block = static_cast<char*>(hide(f.calloc(size, 1)));
    TARN_CHECK(block != nullptr, "calloc(100 MiB) fails");
    for (size_t place = 0; place < size; place += size / 8) {
      TARN_CHECK(first_nonzero(block + place, 4096) == 4096, "calloc of a sparse block: not zero at %zu",
                 place);
      block[place] = 1;
    }
    const size_t grown = growth(before, rss_bytes());
    TARN_CHECK(grown < 8 * mib, "8 pages of 100 MiB written: calloc makes %.1f MiB resident", in_mib(grown));
    f.free(block);
  }
  // Writes every second page: purging single pages is not worth a system call each, yet the block is not all zero.
  for (int round = 0; round < 2; ++round) {
    char* const block = static_cast<char*>(hide(f.calloc(size, 1)));
    TARN_CHECK(block != nullptr && first_nonzero(block, size) == size,
               "calloc of a half-written block is not zero");
    for (size_t place = 0; place < size; place += 2 * 4096) memset(block + place, 1, 4096);
    f.free(block);
  }
}

}  // namespace

void calloc_leaves_zero_pages_untouched() {
  need_own_memory_figures();
  touches_nothing(64 * mib, 2 * mib);
  touches_nothing(3 * gib, 4 * mib);
  if (!huge_pages_everywhere()) stays_sparse();
}

}  // namespace contract
