// SPDX-License-Identifier: MIT
// metadata_arena: memory for tarn's own structures, apart from the blocks that programs write to.
//
// Owner: the engine has one. It takes regions of address space at random places with guards at both ends
// (os/guarded_memory.hpp), so that no write that runs past a block reaches a structure. A region faults on every access;
// chunks of it are made writable from the front as they are needed. Blocks are cut from the front of chunks and never
// go back to the system; structures that come and go keep free lists of their own (see metadata_pool). Pages are touched
// only as they are used.
// Thread safety: all members may be called by any thread; the lock is not held across the system call.
// Invariants: [next_, end_) is writable and untouched, hence zero; [end_, limit_) is the rest of the newest region.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/units.hpp"
#include "os/mutex.hpp"

namespace tarn {

class metadata_arena {
 public:
  constexpr metadata_arena() = default;

  // Zeroed memory, aligned to `alignment` (a power of two of at most one page); null when there is none.
  void* allocate(std::size_t bytes, std::size_t alignment);

  // The same for a table of which the most part is never touched: it does not count as used().
  void* allocate_sparse(std::size_t bytes, std::size_t alignment);

  // Makes `bytes` more available now, so that later calls cannot fail for want of address space. False: there is none.
  bool ensure_available(std::size_t bytes);

  [[nodiscard]] std::size_t used() const { return used_.load(std::memory_order_relaxed); }
  os::mutex& lock() { return lock_; }

 private:
  void* take(std::size_t bytes, std::size_t alignment);
  bool extend(std::size_t bytes);
  bool open_chunk(std::uintptr_t from, std::size_t least, std::size_t room);
  bool new_region(std::size_t bytes);

  os::mutex lock_{os::lock_rank::metadata};
  std::uintptr_t next_ = 0;   // guarded by lock_
  std::uintptr_t end_ = 0;    // guarded by lock_
  std::uintptr_t limit_ = 0;  // guarded by lock_
  std::size_t reserved_ = 0;  // guarded by lock_; bytes of all regions
  std::atomic<std::size_t> used_{0};
};

// Structures of one size that come and go: a free list in front of the arena. Not zeroed when reused.
// Guarded by its own lock. Memory in it was of this type and stays of this type, so that a stale pointer to a
// structure still points to one.
class metadata_pool {
 public:
  constexpr metadata_pool(std::size_t bytes, std::size_t alignment) : bytes_(bytes), alignment_(alignment) {}

  void* allocate(metadata_arena& arena);
  void deallocate(void* block);
  os::mutex& lock() { return lock_; }

 private:
  struct link {
    link* next;
  };

  std::size_t bytes_;
  std::size_t alignment_;
  os::mutex lock_{os::lock_rank::span_metadata};
  link* free_ = nullptr;  // guarded by lock_
};

}  // namespace tarn
