// SPDX-License-Identifier: MIT
// sampled_blocks: the living blocks that were recorded in mode sample. A free checks a small filter of counts
// first, so nearly all frees cost one load and one branch; only those that may be of a recorded block take the
// lock. Invariant, under the lock: the filter's count for a hash is the number of entries with that hash; a count
// that has reached 255 stays there.
//
//   block_filter:  | mask | count[0] count[1] ... count[mask] |    index: filter_hash(block) & mask
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"

namespace tarn::profiler {

// One count per hash of an address; 0: no recorded block has that hash. The mask + 1 counts follow the structure in
// memory. Threads read them without the lock; a thread can get a block only after its count was raised.
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

// Zeroed memory is an empty table.
class sampled_blocks {
 public:
  // False: out of memory, and the block must not be recorded. When the table grows, publishes a larger filter in
  // `filter`.
  bool insert(void* block, std::size_t size, std::atomic<const block_filter*>& filter) noexcept;
  // Removes `block`. True: it was in the table.
  bool take(void* block, std::size_t& size) noexcept;
  // Removes all blocks and releases memory. The filter is wiped but stays mapped, as other threads may be reading
  // it.
  void release() noexcept;

 private:
  struct entry {
    void* block;  // null: empty
    std::size_t size;
  };
  static constexpr std::uint32_t first_entries = 1024;
  // Keeps hash collisions rare, so few frees of other blocks take the lock.
  static constexpr std::uint32_t counts_per_entry = 8;

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
