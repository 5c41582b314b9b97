// SPDX-License-Identifier: MIT
// sampled_blocks: the living blocks that were recorded in mode sample; in mode full, the large ones. A free checks a small filter of counts
// first, so nearly all frees cost one load and one branch; only those that may be of a recorded block take the
// lock. Invariants, whenever the lock is free: the filter's count for a hash is the number of entries with that hash;
// a count that has reached 255 stays there; count_ is the number of entries, at most half of them all and one more.
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

inline bool may_hold(const block_filter& filter, const void* block) {
  return filter.counts()[filter_hash(block) & filter.mask] != 0;
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

  void validate_locked() const TARN_REQUIRES(lock_);

 private:
  friend class sampled_blocks_test_access;

  struct entry {
    void* block;  // null: empty
    std::size_t size;
  };
  static constexpr std::uint32_t first_entries = 1024;
  // Keeps hash collisions rare, so few frees of other blocks take the lock.
  static constexpr std::uint32_t counts_per_entry = 8;

  bool grow(std::atomic<const block_filter*>& filter) noexcept TARN_REQUIRES(lock_);
  void insert(void* block, std::size_t size) noexcept TARN_REQUIRES(lock_);
  void count(void* block, int change) noexcept TARN_REQUIRES(lock_);
  void erase(std::uint32_t index) noexcept TARN_REQUIRES(lock_);

  os::plain_mutex lock_;
  std::uint32_t size_ TARN_GUARDED_BY(lock_);  // of entries_, a power of two
  std::uint32_t count_ TARN_GUARDED_BY(lock_);
  entry* entries_ TARN_GUARDED_BY(lock_);
  block_filter* filter_ TARN_GUARDED_BY(lock_);
};

// The counts are summed, which finds a count that is wrong, not one that is at the wrong hash.
inline void sampled_blocks::validate_locked() const {
  std::uint32_t entries = 0;
  std::uint32_t counted = 0;
  bool has_full_count = false;
  for (std::uint32_t i = 0; i < size_; ++i) {
    if (entries_[i].block == nullptr) continue;
    ++entries;
    const std::uint8_t count = filter_->counts()[filter_hash(entries_[i].block) & filter_->mask];
    TARN_INVARIANT("sampled_blocks", this, count > 0);
  }
  for (std::uint32_t i = 0; size_ != 0 && i <= filter_->mask; ++i) {
    counted += filter_->counts()[i];
    has_full_count = has_full_count || filter_->counts()[i] == 255;
  }
  TARN_INVARIANT("sampled_blocks", this, count_ == entries);
  TARN_INVARIANT("sampled_blocks", this, counted == entries || has_full_count);
  TARN_INVARIANT("sampled_blocks", this, 2 * count_ <= size_ + 2);
}

}  // namespace tarn::profiler
