// SPDX-License-Identifier: MIT
// Line 7: realloc in random steps from 16 B to 512 MiB keeps every byte of the block, also of blocks from memalign, and
// of the neighbours.
#include <malloc.h>

#include "check.hpp"

using namespace guarantee;

namespace {

struct slot {
  void* start;
  size_t size;
  uint64_t seed;
};

// Resizes the block, checks every byte that must have survived, and stamps the new ones.
void resize(slot& s, size_t size) {
  void* const moved = realloc(s.start, size);
  TARN_CHECK(moved != nullptr, "realloc from %zu to %zu fails", s.size, size);
  TARN_CHECK(aligned_to(moved, 16), "realloc from %zu to %zu gives %p", s.size, size, moved);
  TARN_CHECK(malloc_usable_size(moved) >= size, "realloc to %zu: %zu usable", size,
             malloc_usable_size(moved));
  const size_t kept = s.size < size ? s.size : size;
  const size_t wrong = first_difference(moved, s.seed, kept);
  TARN_CHECK(wrong == kept, "realloc from %zu to %zu loses byte %zu", s.size, size, wrong);
  stamp(moved, s.seed, kept, size);
  s.start = moved;
  s.size = size;
}

void replace_by_aligned(slot& s, random_numbers& random) {
  free(s.start);
  const size_t alignment = size_t{16} << random.below(13);
  s.size = random.size_up_to_bits(16) + 16;
  s.start = memalign(alignment, s.size);
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
      resize(s, s.size + random.below(s.size / 8 + 1));  // a small step
      if (s.size > size_t{1} << bits) resize(s, 16);
    } else {
      resize(s, random.size_up_to_bits(bits) + 15);
    }
  }
  for (size_t i = 0; i < slot_count; ++i) {
    TARN_CHECK(stamped(slots[i].start, slots[i].seed, slots[i].size),
               "a neighbour's realloc changes a block");
    free(slots[i].start);
  }
  munmap(slots, slot_count * sizeof(slot));
  return steps;
}

}  // namespace

int main() {
  start();
  const size_t factor = long_run() ? 50 : 1;
  size_t steps = random_steps(500, 12, 300'000 * factor);
  steps += random_steps(100, 18, 30'000 * factor);
  steps += random_steps(20, 23, 2000 * factor);
  steps += random_steps(2, 29, 150 * factor);
  measured("%zu steps, 16 B to 512 MiB, every byte kept", steps);
  return holds;
}
