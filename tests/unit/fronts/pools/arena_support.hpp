// SPDX-License-Identifier: MIT
// Helpers for the tests of arenas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tarn/malloc.h"

namespace tarn::testing_support {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

// Bytes in use, after a trim. Memory that other tests have left may still be returned later, so the value may fall by
// itself, but not rise.
inline std::size_t pages_in_use() {
  tarn_trim(0);
  tarn_stats stats;
  tarn_get_stats(&stats);
  return stats.in_use;
}

inline bool is_aligned(const void* p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

// A piece of memory filled with one byte value, so that overlaps are detected.
struct stamped_piece {
  unsigned char* memory;
  std::size_t bytes;
  unsigned char stamp;

  stamped_piece(void* at, std::size_t size, std::size_t number)
      : memory(static_cast<unsigned char*>(at)), bytes(size), stamp(static_cast<unsigned char>(number)) {
    std::memset(memory, stamp, bytes);
  }
  [[nodiscard]] bool intact() const {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (memory[i] != stamp) return false;
    }
    return true;
  }
};

// Appends its number to a list when it is destroyed.
struct noted {
  noted(std::vector<int>& list, int number) : ends(&list), id(number) {}
  noted(const noted&) = delete;
  noted& operator=(const noted&) = delete;
  ~noted() { ends->push_back(id); }
  std::vector<int>* ends;
  int id;
};

}  // namespace tarn::testing_support
