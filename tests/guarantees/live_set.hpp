// SPDX-License-Identifier: MIT
// live_set: blocks of changing sizes whose bytes together stay about the same, for the bounds on memory of guarantee 30.
// Owner: each program includes this header once. Thread safety: one thread.
// Invariant: every block keeps its content; drop() checks the first, the middle and the last byte.
#pragma once

#include <malloc.h>

#include "inject.hpp"

namespace guarantee {

class live_set {
 public:
  explicit live_set(size_t most_blocks)
      : most_(most_blocks), blocks_(own_array<void*>(most_blocks)), sizes_(own_array<uint32_t>(most_blocks)) {
    memset(static_cast<void*>(blocks_), 0, most_blocks * sizeof(void*));
    memset(sizes_, 0, most_blocks * sizeof(uint32_t));
  }

  // Allocates `bytes` bytes in sizes from 0.75 to 1.25 of `centre`. Random older blocks are freed for them, so that at most
  // `live_bytes` are live.
  void replace(size_t bytes, size_t centre, size_t live_bytes, random_numbers& random) {
    for (size_t replaced = 0; replaced < bytes;) {
      const size_t size = centre * 3 / 4 + random.below(centre / 2);
      while (bytes_ + size > live_bytes) drop(random.below(count_));
      add(size);
      replaced += size;
    }
  }
  void drop_all() {
    while (count_ != 0) drop(count_ - 1);
  }

 private:
  // The value of all bytes of a block.
  static unsigned char sign(const void* block, size_t size) {
    return static_cast<unsigned char>((reinterpret_cast<uintptr_t>(block) >> 4) * 31 + size);
  }
  void add(size_t size) {
    TARN_CHECK(count_ < most_, "the test's own table is full");
    void* const block = take(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) failed", size);
    TARN_CHECK(malloc_usable_size(block) >= size, "%zu usable bytes of %zu", malloc_usable_size(block), size);
    memset(block, sign(block, size), size);
    blocks_[count_] = block;
    sizes_[count_++] = static_cast<uint32_t>(size);
    bytes_ += size;
  }
  void drop(size_t chosen) {
    auto* const block = static_cast<unsigned char*>(blocks_[chosen]);
    const size_t size = sizes_[chosen];
    const unsigned char expected = sign(block, size);
    TARN_CHECK(block[0] == expected && block[size / 2] == expected && block[size - 1] == expected,
               "a block of %zu bytes was overwritten", size);
    give(block);
    bytes_ -= size;
    blocks_[chosen] = blocks_[--count_];
    sizes_[chosen] = sizes_[count_];
  }

  size_t most_;
  void** blocks_;
  uint32_t* sizes_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace guarantee
