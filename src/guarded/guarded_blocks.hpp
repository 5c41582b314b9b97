// SPDX-License-Identifier: MIT
// guarded_blocks: a fixed number of slots, in each of which one block at a time lies alone on its own system pages,
// with pages before and behind that fault on every access. When the block is freed, its pages fault too, until the
// slot is used again; freed slots wait in a queue, so that this takes as long as it can.
//
// The region, in units of slot_bytes_: guard, slot, guard, slot, …, guard. Only the pages of live blocks are
// accessible. A block ends where its slot ends (up to its alignment), so that an overflow faults, or begins where it
// begins, so that an underflow does. The rest of its pages is filled, and looked at when the block is freed.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread. A slot belongs to the thread that
// has taken it from the queue, or has changed its state from live; the queue is guarded by the lock, under which there
// is no system call. A fault handler reads slots without any lock: what it sees may be of two moments.
// Invariant: every slot is in the queue, or live, or in the hands of one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "os/mutex.hpp"

namespace tarn {

// Who called, innermost first: what unwind::walk() gave.
struct call_stack {
  static constexpr std::size_t most = 24;
  std::uintptr_t frames[most] = {};
  std::size_t count = 0;
  long thread = 0;  // the system's number

  void record();
};

enum class guarded_state : std::uint8_t {
  unused,
  live,
  freed,
};

struct guarded_slot {
  std::atomic<guarded_state> state{guarded_state::unused};
  std::uint8_t size_class = 0;
  bool apart[2] = {};        // its last and its first page are mappings of their own
  std::uintptr_t start = 0;  // of the block
  std::size_t size = 0;
  call_stack allocated;
  call_stack freed;
};

class guarded_blocks {
 public:
  // Of requests that are guarded: what a slot holds with 4 KiB pages.
  static constexpr std::size_t largest_size = 16 * kib;
  static constexpr std::size_t most_slots = 64;

  constexpr guarded_blocks() = default;

  // A block for a request of 1 to largest_size bytes, aligned as the size class would be: to 16 bytes (8 below a size of
  // 16), and to any power of two up to a page that divides the size. Null when all slots are in use, when the class has
  // its part of them, or when the system refuses.
  void* allocate(std::size_t size, unsigned size_class);
  // Requires: contains(block). Ends the process with a report if no live block begins there, or if the program has
  // written outside of it.
  void deallocate(void* block);
  // Bytes that may be used: those asked for. 0: no live block begins there.
  [[nodiscard]] std::size_t size_of(const void* block) const;

  [[nodiscard]] bool contains(const void* address) const { return contains(address_of(address)); }
  [[nodiscard]] bool contains(std::uintptr_t address) const {
    const std::uintptr_t base = base_.load(std::memory_order_relaxed);
    return base != 0 && address - base < region_bytes_;
  }
  // The slot whose block is nearest to an address within the region; null if none was ever used there.
  [[nodiscard]] const guarded_slot* nearest(std::uintptr_t address) const;

  [[nodiscard]] std::size_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t samples() const { return samples_.load(std::memory_order_relaxed); }
  os::mutex& lock() { return lock_; }

 private:
  // What the pages of a block that are not its own are filled with.
  static constexpr unsigned char filling = 0xb7;

  // The pages of a block, [start, end).
  struct page_range {
    std::uintptr_t start;
    std::uintptr_t end;
    [[nodiscard]] std::size_t bytes() const { return end - start; }
  };

  bool ensure_region();
  bool open(guarded_slot& slot, bool at_start);
  guarded_slot* take_slot(unsigned size_class, bool& at_start);
  void put_back(guarded_slot* slot);
  [[nodiscard]] std::uintptr_t slot_start(const guarded_slot* slot) const;
  [[nodiscard]] guarded_slot* slot_at(std::uintptr_t address);
  static page_range pages_of(const guarded_slot& slot);
  void check_filling(const guarded_slot& slot) const;

  std::atomic<std::uintptr_t> base_{0};  // written once, after the two that follow
  std::size_t region_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t slot_count_ = 0;

  os::mutex lock_{os::lock_rank::guarded};
  bool refused_ = false;                  // guarded by lock_: there was no region
  std::uint8_t queue_[most_slots] = {};   // guarded by lock_: a ring of slots that no block lies in
  std::size_t queue_first_ = 0;           // guarded by lock_
  std::size_t queued_ = 0;                // guarded by lock_
  std::uint8_t of_class_[256] = {};       // guarded by lock_: live blocks
  std::uint8_t class_samples_[256] = {};  // guarded by lock_: so far, wraps

  std::atomic<std::size_t> live_bytes_{0};
  std::atomic<std::uint64_t> samples_{0};
  guarded_slot slots_[most_slots];
};

}  // namespace tarn
