// SPDX-License-Identifier: MIT
// metadata_arena: memory for tarn's own structures, apart from the blocks that programs write to.
//
// Owner: the engine has one. Blocks are cut from the front of chunks and never go back to the system; structures
// that come and go keep free lists of their own (see metadata_pool). Pages are touched only as they are used.
// Thread safety: all members may be called by any thread; the lock is not held across the system call.
// Invariant: used_ <= bytes of all chunks, and [next_, end_) is untouched, hence zero.
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

  // Takes address space for `bytes` more now, so that later calls cannot fail for want of it. False: there is
  // none.
  bool ensure_available(std::size_t bytes);

  [[nodiscard]] std::size_t used() const { return used_.load(std::memory_order_relaxed); }
  os::mutex& lock() { return lock_; }

 private:
  void* take(std::size_t bytes, std::size_t alignment);
  bool grow(std::size_t bytes);

  os::mutex lock_{os::lock_rank::metadata};
  std::uintptr_t next_ = 0;  // guarded by lock_
  std::uintptr_t end_ = 0;   // guarded by lock_
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
