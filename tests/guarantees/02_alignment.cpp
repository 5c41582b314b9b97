// SPDX-License-Identifier: MIT
// Line 2: alignment and usable size of every block. Blocks from 16 bytes up are aligned to 16, smaller ones to 8;
// requested alignments go from 8 B to 64 MiB. Every byte up to malloc_usable_size may be written without changing a
// neighbour.
#include <malloc.h>

#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t fully_stamped = 2 * mib;  // in longer blocks only the two ends are stamped
constexpr size_t end_bytes = 8 * kib;
size_t blocks_checked = 0;

struct block {
  char* start;
  size_t usable;
  uint64_t seed;
};

// The blocks that are live at the same time: none may overlap another.
class live_blocks {
 public:
  void add(void* memory, size_t size, size_t alignment, const char* source) {
    TARN_CHECK(memory != nullptr, "%s(%zu), alignment %zu: no block", source, size, alignment);
    TARN_CHECK(aligned_to(memory, alignment), "%s(%zu): %p is not aligned to %zu", source, size, memory,
               alignment);
    const size_t usable = malloc_usable_size(memory);
    TARN_CHECK(usable >= size, "%s(%zu), alignment %zu: only %zu bytes usable", source, size, alignment,
               usable);
    char* const from = hide(static_cast<char*>(memory));
    for (size_t i = 0; i < count_; ++i) {
      const block& other = blocks_[i];
      const bool apart = from + usable <= other.start || other.start + other.usable <= from;
      TARN_CHECK(apart, "%s(%zu): %p with %zu usable bytes overlaps %p with %zu", source, size, memory,
                 usable, static_cast<void*>(other.start), other.usable);
    }
    blocks_[count_] = {from, usable, ++blocks_checked};
    fill(blocks_[count_++]);
    if (count_ == capacity) check_and_free_all();
  }

  void check_and_free_all() {
    for (size_t i = 0; i < count_; ++i) check(blocks_[i]);
    // Frees every second block first: freeing a block must not change its neighbours.
    for (size_t i = 0; i < count_; i += 2) free(blocks_[i].start);
    for (size_t i = 1; i < count_; i += 2) check(blocks_[i]);
    for (size_t i = 1; i < count_; i += 2) free(blocks_[i].start);
    count_ = 0;
  }

 private:
  static constexpr size_t capacity = 48;

  static void fill(const block& b) {
    if (b.usable <= fully_stamped) return stamp(b.start, b.seed, 0, b.usable);
    stamp(b.start, b.seed, 0, end_bytes);
    stamp(b.start + b.usable - end_bytes, b.seed, 0, end_bytes);
  }
  static void check(const block& b) {
    const bool whole = b.usable <= fully_stamped
                           ? stamped(b.start, b.seed, b.usable)
                           : stamped(b.start, b.seed, end_bytes) &&
                                 stamped(b.start + b.usable - end_bytes, b.seed, end_bytes);
    TARN_CHECK(whole, "a byte of the block %p (%zu usable) changed under its owner",
               static_cast<void*>(b.start), b.usable);
  }

  block blocks_[capacity];
  size_t count_ = 0;
};

live_blocks live;

constexpr size_t natural_alignment(size_t size) { return size >= 16 ? 16 : 8; }

void try_size(size_t size, int copies) {
  const size_t alignment = natural_alignment(size);
  for (int i = 0; i < copies; ++i) {
    live.add(malloc(size), size, alignment, "malloc");
    live.add(::operator new(size), size, alignment, "operator new");
    live.add(calloc(1, size), size, alignment, "calloc");
    live.add(realloc(malloc(size / 2 + 1), size + 1), size + 1, natural_alignment(size + 1), "realloc");
  }
}

void try_aligned(size_t alignment, size_t size) {
  void* memory = nullptr;
  const int error = posix_memalign(&memory, alignment, size);
  TARN_CHECK(error == 0, "posix_memalign(%zu, %zu): error %d", alignment, size, error);
  live.add(memory, size, alignment, "posix_memalign");
  live.add(aligned_alloc(alignment, size), size, alignment, "aligned_alloc");
  live.add(memalign(alignment, size), size, alignment, "memalign");
  live.add(::operator new(size, static_cast<std::align_val_t>(alignment)), size, alignment, "operator new");
  live.add(malloc(size), size, natural_alignment(size), "malloc");
}

void try_all_sizes() {
  for (size_t size = 0; size <= 4200; ++size) try_size(size, 3);
  random_numbers random(2);
  for (size_t power = 4096; power <= 256 * mib; power *= 2) {
    for (const size_t size : {power - 1, power, power + 1, power + power / 2}) try_size(size, 1);
    for (int i = 0; i < 6; ++i) try_size(power + random.below(power), 1);
    live.check_and_free_all();
  }
}

void try_all_alignments() {
  for (size_t alignment = 8; alignment <= 64 * mib; alignment *= 2) {
    for (const size_t size : {size_t{1}, size_t{8}, size_t{40}, alignment / 2, alignment - 1, alignment,
                              alignment + 1, alignment * 2, alignment * 3 + 8}) {
      try_aligned(alignment, size);
    }
    if (alignment <= 4096) {
      for (size_t size = 8; size <= 4200; size += 8) try_aligned(alignment, size);
    } else if (alignment <= mib) {
      for (size_t size = 64; size <= 64 * kib; size += size) try_aligned(alignment, size);
    }
    live.check_and_free_all();
  }
}

}  // namespace

int main() {
  start();
  try_all_sizes();
  try_all_alignments();
  measured("%zu blocks, sizes 0 to 512 MiB, alignments 8 B to 64 MiB", blocks_checked);
  return holds;
}
