// SPDX-License-Identifier: MIT
// metadata_arena: memory for tarn's own structures, apart from the blocks that programs write to.
//
// Owner: the engine has one. The arena reserves regions of address space at random places with guards at both ends
// (os/guarded_memory.hpp), so that a write past the end of a program's block cannot reach a structure. A new region is
// inaccessible; chunks of it are made writable from its low end as they are needed; the rest goes back where address space
// is short. Blocks are cut from the low end of
// the writable part, small ones from runs of their own; structures that are created and destroyed use a pool of free
// ones, which gives memory back (metadata_pool.hpp). A page of the arena is first touched when a block in it is used.
//
//   the newest region   start       open_.next         open_.end         limit_
//                         | blocks given | writable, zero  | inaccessible  |
//
// Thread safety: all members may be called by any thread; the lock is not held across a system call.
// Invariants: open_.next <= open_.end <= limit_; open_ and small_ are writable and untouched, hence zero;
// [open_.end, limit_) is inaccessible; used() <= reserved_.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/units.hpp"
#include "os/memory.hpp"
#include "os/mutex.hpp"

namespace tarn {

class metadata_arena {
 public:
  constexpr metadata_arena() = default;

  // Zeroed memory, aligned to `alignment` (a power of two of at most one page); null when there is none.
  void* allocate(std::size_t bytes, std::size_t alignment);

  // The same for a table most of which is never touched: it does not count as used().
  void* allocate_sparse(std::size_t bytes, std::size_t alignment);

  // What is touched of such a table, and counts as used() after all; negative: it has gone back to the system.
  void note_used(std::ptrdiff_t bytes) {
    used_.fetch_add(static_cast<std::size_t>(bytes), std::memory_order_relaxed);
  }

  // Memory for a while, for one borrower at a time; null when it is lent, or there is none.
  void* borrow_scratch(std::size_t bytes);
  // What was written to it is lost.
  void end_scratch();
  // In a forked child: what another thread has borrowed is free, and nobody opens a chunk.
  void forget_others();

  // Makes `bytes` more available now, so that later calls need no new address space. False: there is none.
  bool ensure_available(std::size_t bytes);

  // Address space is short: what is not open goes back to the system, and regions are short from now on. False: there was
  // nothing to give.
  bool give_back_unopened();

  void validate_locked() const TARN_REQUIRES(lock_) {
    TARN_INVARIANT("metadata_arena", this, small_.next <= small_.end);
    TARN_INVARIANT("metadata_arena", this, open_.next <= open_.end);
    TARN_INVARIANT("metadata_arena", this, open_.end <= limit_);
    TARN_INVARIANT("metadata_arena", this, used() <= reserved_);
  }

  // The system gives no huge pages unasked: its setting is not `always`.
  void set_never_huge() { is_never_huge_.store(true, std::memory_order_relaxed); }

  // Its regions, the oldest first; those beyond most_regions, short ones where address space is short, are not remembered.
  static constexpr std::size_t most_regions = 16;
  [[nodiscard]] std::size_t region_count() const { return region_count_.load(std::memory_order_relaxed); }
  template <class Visit>
  void for_each_region(Visit visit) {
    os::lock_guard guard(lock_);
    for (std::size_t i = 0; i < region_count(); ++i) visit(regions_[i]);
  }

  [[nodiscard]] std::size_t used() const { return used_.load(std::memory_order_relaxed); }
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }

 private:
  friend class metadata_arena_test_access;

  // Blocks are cut from its low end.
  struct row {
    std::uintptr_t next = 0;
    std::uintptr_t end = 0;
    [[nodiscard]] std::size_t left() const { return end - next; }
    // 0: too short.
    std::uintptr_t cut(std::size_t bytes, std::size_t alignment);
  };

  void* take_locked(std::size_t bytes, std::size_t alignment) TARN_REQUIRES(lock_);
  bool extend(std::size_t bytes);
  static std::size_t open(std::uintptr_t from, std::size_t least, std::size_t room);
  bool open_chunk(std::uintptr_t from, std::size_t least, std::size_t room);
  bool new_region(std::size_t bytes);

  os::mutex lock_{os::lock_rank::metadata};
  row small_ TARN_GUARDED_BY(lock_);
  row open_ TARN_GUARDED_BY(lock_);
  std::uintptr_t limit_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t openers_ TARN_GUARDED_BY(lock_) = 0;   // threads that open a chunk: the region must stay mapped
  std::size_t reserved_ TARN_GUARDED_BY(lock_) = 0;  // bytes of all regions
  os::address_range regions_[most_regions] TARN_GUARDED_BY(lock_){};
  std::atomic<std::size_t> region_count_{0};      // written under lock_
  bool is_short_ TARN_GUARDED_BY(lock_) = false;  // address space, for others
  void* scratch_ TARN_GUARDED_BY(lock_) = nullptr;
  std::size_t scratch_bytes_ TARN_GUARDED_BY(lock_) = 0;
  void* borrower_ TARN_GUARDED_BY(lock_) = nullptr;  // of the scratch, by its thread pointer
  std::atomic<std::size_t> used_{0};
  std::atomic<bool> is_never_huge_{false};
};

}  // namespace tarn
