// SPDX-License-Identifier: MIT
// guarded_blocks: a fixed number of slots, each of which holds one block at a time, alone on its own system pages
// between pages that fault on every access. When the block is freed, its pages fault too until the slot is used again;
// freed slots wait in a queue, so that this takes as long as possible.
//
// The region, in units of slot_bytes_; only the pages of live blocks are accessible:
//
//   +-------+--------+-------+--------+-------+-- … --+--------+-------+
//   | guard | slot 0 | guard | slot 1 | guard |       | slot n | guard |
//   +-------+--------+-------+--------+-------+-- … --+--------+-------+
//
//   a slot with its block at the end          |  fault  | filling |   block   |+|  guard …
//   a slot with its block at the start guard …|   block   | filling |   fault   |
//
// A block ends where its slot ends (up to its alignment, +), so an overflow faults; or it begins where the slot begins,
// so an underflow faults. The rest of its pages is filled with a pattern, which is checked when the block is freed.
//
// Once the process has entered a sandbox there are no new blocks, and a free makes no system call: which ones the sandbox
// allows is not known.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread. A slot belongs to the thread that
// has taken it from the queue, or has changed its state from `live`. The lock guards the queue; no system call is made
// under it. A fault handler reads slots without a lock and may see a mixture of two states.
// Invariants: every slot is in the queue, or holds a live block, or is being changed by one thread:
// queued_ + sum of of_class_ == slot_count_; no slot in the queue has a live block, and none is there twice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/rate_limit.hpp"
#include "base/units.hpp"
#include "os/mutex.hpp"
#include "samples/guarded/guarded_slot.hpp"

namespace tarn {

class guarded_blocks {
 public:
  // The largest request that is guarded: the size of a slot with 4 KiB pages.
  static constexpr std::size_t largest_size = 16 * kib;
  static constexpr std::size_t most_slots = 64;

  constexpr guarded_blocks() = default;

  // A block for a request of 1 to largest_size bytes, aligned like an object of the size class: to 16 bytes (8 if the
  // size is below 16), and to any power of two up to a page that divides the size. Null: all slots are in use, the
  // class has its share of them, too many have been handed out in this second, or the system refuses. `owner`: whom hand_over() finds it by, for example a scope.
  void* allocate(std::size_t size, unsigned size_class, const void* owner = nullptr);
  // At most so many blocks per second on average; 0: any number. The first of each class does not count.
  void set_per_second(std::int64_t most) { rate_.set_per_second(most); }
  static constexpr std::int64_t most_per_second = rate_limit::most_per_second;
  // Returns the size class that the block was allocated for. Requires: contains(block). Ends the process with a report if no live block begins there, or if the program has
  // written outside the block.
  unsigned deallocate(void* block);
  // The usable bytes, which are exactly those requested. 0: no live block begins there.
  [[nodiscard]] std::size_t size_of(const void* block) const;
  // Gives the live blocks of an owner to another one; visit(size class) for each, under the lock. Call while no thread
  // allocates for `from`.
  template <class Visit>
  void hand_over(const void* from, const void* to, Visit visit) {
    os::lock_guard guard(lock_, *this);
    for (guarded_slot& slot : slots_) {
      if (slot.owner != from || slot.state.load(std::memory_order_relaxed) != guarded_state::live) continue;
      slot.owner = to;
      visit(slot.size_class);
    }
  }

  [[nodiscard]] bool contains(const void* address) const { return contains(address_of(address)); }
  [[nodiscard]] bool contains(std::uintptr_t address) const {
    // acquire: partner of the release in ensure_region(). Of an address outside the region, too, the length is read.
    const std::uintptr_t base = base_.load(std::memory_order_acquire);
    return base != 0 && address - base < region_bytes_;
  }
  // The slot whose block is nearest to an address in the region; null: no slot was ever used.
  [[nodiscard]] const guarded_slot* nearest(std::uintptr_t address) const;

  [[nodiscard]] std::size_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t samples() const { return samples_.load(std::memory_order_relaxed); }
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }

  void validate_locked() const TARN_REQUIRES(lock_) {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < queued_; ++i) {
      const std::size_t index = queue_[(queue_first_ + i) % slot_count_];
      const guarded_state state = slots_[index % most_slots].state.load(std::memory_order_relaxed);
      TARN_INVARIANT("guarded_blocks", this, index < slot_count_ && (seen >> index & 1U) == 0);
      TARN_INVARIANT("guarded_blocks", this, state != guarded_state::live);
      seen |= std::uint64_t{1} << index;
    }
    std::size_t taken = 0;
    for (const std::uint8_t of_one : of_class_) taken += of_one;
    TARN_INVARIANT("guarded_blocks", this, queued_ + taken == slot_count_);
  }

 private:
  friend class guarded_blocks_test_access;

  // The byte that fills the rest of a block's pages.
  static constexpr unsigned char filling = 0xb7;

  // The pages of a block, [start, end).
  struct page_range {
    std::uintptr_t start;
    std::uintptr_t end;
    [[nodiscard]] std::size_t bytes() const { return end - start; }
  };

  bool ensure_region();
  bool open(guarded_slot& slot, bool at_start);
  guarded_slot* take_slot(unsigned size_class, const void* owner, bool& at_start);
  void put_back(guarded_slot* slot);
  [[nodiscard]] std::uintptr_t slot_start(const guarded_slot* slot) const;
  [[nodiscard]] guarded_slot* slot_at(std::uintptr_t address);
  static page_range pages_of(const guarded_slot& slot);
  void check_filling(const guarded_slot& slot) const;

  std::atomic<std::uintptr_t> base_{0};  // written once, after the three members that follow
  std::size_t region_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t slot_count_ = 0;

  os::mutex lock_{os::lock_rank::guarded};
  bool refused_ TARN_GUARDED_BY(lock_) = false;  // the system refused the region
  std::uint8_t queue_[most_slots] TARN_GUARDED_BY(
      lock_) = {};  // ring of the indices of slots without a live block
  std::size_t queue_first_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t queued_ TARN_GUARDED_BY(lock_) = 0;
  std::uint8_t of_class_[256] TARN_GUARDED_BY(lock_) = {};       // slots out of the queue, by class
  std::uint8_t class_samples_[256] TARN_GUARDED_BY(lock_) = {};  // blocks handed out so far; wraps

  rate_limit rate_{16};  // the default in options.cpp

  std::atomic<std::size_t> live_bytes_{0};
  std::atomic<std::uint64_t> samples_{0};
  guarded_slot slots_[most_slots];
};

}  // namespace tarn
