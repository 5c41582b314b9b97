// SPDX-License-Identifier: MIT
// block_store: metadata memory in sizes that are powers of two, for structures of variable length: the bits of spans
// with many slots, threads' tables of bins, names, shards.
//
// Thread safety: any thread. A request takes at most twice its bytes.
#pragma once

#include <bit>
#include <cstddef>

#include "base/units.hpp"
#include "pages/metadata_pool.hpp"

namespace tarn {

class block_store : public metadata_pools<19> {
 public:
  static constexpr std::size_t least = 64;
  // Enough for the table of a thread that uses two million object_pools.
  static constexpr std::size_t most = 16 * mib;

  constexpr explicit block_store(metadata_arena& arena)
      : metadata_pools{{pool_of(0), pool_of(1), pool_of(2), pool_of(3), pool_of(4), pool_of(5), pool_of(6),
                        pool_of(7), pool_of(8), pool_of(9), pool_of(10), pool_of(11), pool_of(12),
                        pool_of(13), pool_of(14), pool_of(15), pool_of(16), pool_of(17), pool_of(18)}},
        arena_(arena) {}

  // At least `bytes` bytes, not zeroed; null when there is no memory, or bytes > most.
  void* allocate(std::size_t bytes) {
    return bytes <= most ? pools[index_of(bytes)].allocate(arena_) : nullptr;
  }
  // Requires: `bytes` as passed to allocate().
  void deallocate(void* block, std::size_t bytes) { pools[index_of(bytes)].deallocate(block); }

 private:
  static_assert(least << 18 == most);
  static std::size_t index_of(std::size_t bytes) {
    return bytes <= least ? 0 : static_cast<std::size_t>(std::bit_width((bytes - 1) / least));
  }
  static constexpr metadata_pool pool_of(unsigned power) {
    return {least << power, power == 0 ? least : separation};
  }

  metadata_arena& arena_;
};

}  // namespace tarn
