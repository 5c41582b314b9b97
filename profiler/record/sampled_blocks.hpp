// SPDX-License-Identifier: MIT
// sampled_blocks: which living blocks were recorded, in mode sample. Frees look at a small filter of counts first, so
// that nearly all of them cost a load and a branch; only those that may be recorded take the lock.
// Invariant, under the lock: the filter's count of a hash is the number of entries with it (255 stays).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"

namespace tarn::profiler {

// Per hash of an address: 0 where no recorded block can be. The counts follow it in memory, mask + 1 of them; threads
// read them without the lock, and know of a block only after its count has been raised.
struct block_filter {
  std::uint32_t mask;
  std::uint8_t first_count;

  const std::uint8_t* counts() const noexcept { return &first_count; }
  std::uint8_t* counts() noexcept { return &first_count; }
};

inline std::uint32_t filter_hash(const void* block) {
  return static_cast<std::uint32_t>((reinterpret_cast<std::uintptr_t>(block) >> 4) * 0x9e3779b97f4a7c15U >>
                                    40);
}

// Zeroed memory is an empty one.
class sampled_blocks {
 public:
  // False: there is no memory for it; the block must not be recorded. Publishes a larger filter in `filter`.
  bool insert(void* block, std::size_t size, std::atomic<const block_filter*>& filter) noexcept;
  // True: it was there, and is no longer.
  bool take(void* block, std::size_t& size) noexcept;
  // Forgets all blocks and gives memory back. The filter becomes one of no blocks and stays, as some may be reading it.
  void release() noexcept;

 private:
  struct entry {
    void* block;  // null: empty
    std::size_t size;
  };
  static constexpr std::uint32_t first_entries = 1024;
  static constexpr std::uint32_t counts_per_entry = 8;  // few free calls find a count that is not theirs

  bool grow(std::atomic<const block_filter*>& filter) noexcept;
  void place(void* block, std::size_t size) noexcept;
  void count(void* block, int change) noexcept;
  void erase(std::uint32_t index) noexcept;

  os::plain_mutex lock_;
  std::uint32_t size_;  // of entries_, a power of two
  std::uint32_t count_;
  entry* entries_;
  block_filter* filter_;
};

}  // namespace tarn::profiler
