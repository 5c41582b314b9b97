// SPDX-License-Identifier: MIT
// block_store: metadata memory in powers of two, for what varies in length: the bits of long spans, threads' tables.
//
// Thread safety: any thread. Blocks are reused, never given back to the system.
#pragma once

#include <bit>
#include <cstddef>

#include "base/units.hpp"
#include "pages/metadata_arena.hpp"

namespace tarn {

class block_store {
 public:
  static constexpr std::size_t least = 64;
  static constexpr std::size_t most = 64 * kib;

  constexpr block_store() = default;

  // At least so many bytes, not zeroed; null when there is no memory or it would be more than `most`.
  void* allocate(metadata_arena& arena, std::size_t bytes) {
    return bytes <= most ? pools_[index_of(bytes)].allocate(arena) : nullptr;
  }
  // `bytes` as asked for.
  void deallocate(void* block, std::size_t bytes) { pools_[index_of(bytes)].deallocate(block); }

  void for_each_lock(void (*visit)(os::mutex&)) {
    for (metadata_pool& pool : pools_) visit(pool.lock());
  }

 private:
  static constexpr std::size_t sizes = 11;
  static_assert(least << (sizes - 1) == most);
  static std::size_t index_of(std::size_t bytes) {
    return bytes <= least ? 0 : static_cast<std::size_t>(std::bit_width((bytes - 1) / least));
  }
  metadata_pool pools_[sizes] = {{least, cache_line},      {least << 1, cache_line}, {least << 2, cache_line},
                                 {least << 3, cache_line}, {least << 4, cache_line}, {least << 5, cache_line},
                                 {least << 6, cache_line}, {least << 7, cache_line}, {least << 8, cache_line},
                                 {least << 9, cache_line}, {least << 10, cache_line}};
};

}  // namespace tarn
