// SPDX-License-Identifier: MIT
// block_store: blocks of any size apart from the program's other memory: up to 64 KiB from pools by size, larger ones from a
// buffer pool. For adapters of libraries that bring blocks of many sizes and free them without their size.
//
//     sizes:  256, 272, 288 ... 496, 512, 544 ... 1008, 1024, 1088 ... 64 KiB     sixteen per doubling: 1/16 is wasted at most
//
// A block is found by its address: the page map leads to its pool, or to its buffer.
//
// Thread safety: all members except the destructor may be called by any thread; a block may be freed by any thread.
// Failure: null when there is no memory. A pointer that is not a live block of a pool or buffer pool ends the process
// with a message.
// Idle memory: each thread keeps at most two arrays of at most 16 KiB of free blocks for each size that it uses; decay gives
// the spans of idle pools back, and idle buffers after 5 s.
#pragma once

#include "tarn/detail/abi.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tarn/buffer_pool.hpp"
#include "tarn/detail/config.hpp"
#include "tarn/detail/pool_bin.hpp"
#include "tarn/detail/slot_pools.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

namespace block_sizes {

inline constexpr std::size_t least = 256;
inline constexpr std::size_t largest = 65536;
inline constexpr std::size_t steps_per_doubling = 16;
inline constexpr std::size_t count =
    static_cast<std::size_t>(std::bit_width(largest / least) - 1) * steps_per_doubling + 1;

constexpr std::size_t size_of(std::size_t index) {
  const std::size_t base = least << (index / steps_per_doubling);
  return base + base / steps_per_doubling * (index % steps_per_doubling);
}
// The least size that holds `bytes`. Requires: bytes <= largest.
constexpr std::size_t index_of(std::size_t bytes) {
  if (bytes <= least) return 0;
  const auto doubling = static_cast<std::size_t>(std::bit_width((bytes - 1) / least) - 1);
  const std::size_t base = least << doubling;
  const std::size_t step = base / steps_per_doubling;
  return doubling * steps_per_doubling + (bytes - base + step - 1) / step;
}
constexpr bool holds() {
  if (size_of(count - 1) != largest) return false;
  for (std::size_t bytes = 1; bytes <= largest; ++bytes) {
    const std::size_t index = index_of(bytes);
    if (size_of(index) < bytes || (index != 0 && size_of(index - 1) >= bytes)) return false;
  }
  return true;
}

}  // namespace block_sizes

TARN_POOLS_BEGIN

class block_store {
 public:
  // The pools' names are NAME/SIZE, that of the buffer pool is NAME. `most_idle`: as buffer_pool_options::limit. Throws
  // std::bad_alloc.
  explicit block_store(const char* name, std::size_t most_idle = 0)
      : buffers_({.name = name, .limit = most_idle}) {
    const std::string_view text = std::string_view(name).substr(0, sizeof(name_) - 1);
    text.copy(name_, text.size());
  }
  block_store(const block_store&) = delete;
  block_store& operator=(const block_store&) = delete;
  // Requires: no other thread uses the store any more. The memory of live blocks stays, and is reported by the leak hook
  // (tarn/process.hpp).
  ~block_store() {
    for (shared_slot_pool& slots : pools_) {
      if (tarn_pool* const pool = slots.get()) tarn_pool_destroy(pool);
    }
  }

  [[nodiscard]] void* allocate(std::size_t bytes) noexcept {
    if (bytes > block_sizes::largest) return buffers_.try_get(bytes).release();
    const std::size_t index = block_sizes::index_of(bytes);
    if constexpr (TARN_CHECKED_POOLS == 0) {
      if (void* const block = pop(pools_[index].bin())) {
        unpoison(block, block_sizes::size_of(index));
        return block;
      }
    }
    return allocate_slow(index);
  }
  // Null is allowed.
  void deallocate(void* block) noexcept {
    if (block == nullptr) return;
    // Of a buffer no pool is found; a pointer that is no block is reported by the call that gets it.
    if (tarn_pool_of(block) != nullptr) {
      tarn_pool_deallocate(block);
    } else {
      buffers_.give_back(static_cast<std::byte*>(block));
    }
  }
  // The bytes of a block that may be used. Requires: bytes are not more than it was allocated with, and not much less: the
  // search begins at their size.
  [[nodiscard]] std::size_t usable_bytes(const void* block, std::size_t bytes) const noexcept {
    const tarn_pool* const pool = tarn_pool_of(block);
    if (pool == nullptr) return bytes;
    std::size_t index = bytes <= block_sizes::largest ? block_sizes::index_of(bytes) : block_sizes::count;
    while (index < block_sizes::count && pools_[index].get() != pool) ++index;
    return index < block_sizes::count ? block_sizes::size_of(index) : bytes;
  }

  // Gives idle memory to the page heap, and idle buffers to the system; returns the bytes.
  std::size_t trim() noexcept {
    std::size_t bytes = buffers_.trim();
    for (shared_slot_pool& slots : pools_) {
      tarn_pool_bin* none = &no_bin.bin;
      if (tarn_pool* const pool = slots.get()) bytes += tarn_pool_trim(pool, slots.bin_place(&none));
    }
    return bytes;
  }
  struct figures {
    std::uint64_t live_blocks;
    std::uint64_t bytes;  // of the spans of all pools, and of live and idle buffers
  };
  [[nodiscard]] figures stats() const noexcept {
    tarn_pool_stats sum{};
    for (const shared_slot_pool& slots : pools_) add(sum, stats_of(slots.get()));
    const buffer_pool_stats large = buffers_.stats();
    return {sum.live + large.live, sum.bytes + large.live_bytes + large.kept_bytes};
  }

 private:
  static constexpr std::size_t most_in_magazine_bytes = 16384;

  TARN_DETAIL_COLD void* allocate_slow(std::size_t index) noexcept {
    tarn_pool* const pool = pools_[index].prepare_by([this, index] { return create_pool(index); });
    if (pool == nullptr) return nullptr;
    tarn_pool_bin* none = &no_bin.bin;
    tarn_pool_bin** const place = pools_[index].bin_place(&none);
    void* const block = TARN_CHECKED_POOLS != 0 ? tarn_pool_checked_allocate(pool, place)
                                                : tarn_pool_allocate_slow(pool, place);
    if (block != nullptr) unpoison(block, block_sizes::size_of(index));
    return block;
  }
  tarn_pool* create_pool(std::size_t index) const noexcept {
    char name[sizeof(name_) + 8];
    const std::size_t length = std::strlen(name_);
    std::memcpy(name, name_, length);
    name[length] = '/';
    const char* const end =
        std::to_chars(name + length + 1, name + sizeof(name), block_sizes::size_of(index)).ptr;
    tarn_pool_options request = TARN_POOL_OPTIONS;
    request.object_size = block_sizes::size_of(index);
    request.alignment = 16;
    request.name = name;
    request.name_length = static_cast<std::size_t>(end - name);
    const std::size_t length_of_magazine = most_in_magazine_bytes / block_sizes::size_of(index);
    request.magazine_length =
        length_of_magazine > 2 ? (length_of_magazine < 64 ? length_of_magazine : 64) : 2;
    request.shards = 8;
    request.checked = TARN_CHECKED_POOLS;
    request.owner = this;
    return tarn_pool_create(&request);
  }

  char name_[64] = {};
  shared_slot_pool pools_[block_sizes::count];
  buffer_pool buffers_;
};

TARN_POOLS_END

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
