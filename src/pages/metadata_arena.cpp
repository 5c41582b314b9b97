// SPDX-License-Identifier: MIT
#include "pages/metadata_arena.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "os/guarded_memory.hpp"
#include "os/memory.hpp"

namespace tarn {
namespace {

// A region is as long as all earlier regions together, within these bounds.
constexpr std::size_t first_region_bytes = 64 * mib;
constexpr std::size_t largest_region_bytes = 16 * gib;
// How much of a region is made writable at a time.
constexpr std::size_t chunk_bytes = 4 * mib;
// Where address space is short, regions and chunks are multiples of this.
constexpr std::size_t smallest_chunk_bytes = 64 * kib;

}  // namespace

void* metadata_arena::allocate(std::size_t bytes, std::size_t alignment) {
  void* const block = allocate_sparse(bytes, alignment);
  if (block != nullptr) used_.fetch_add(bytes, std::memory_order_relaxed);
  return block;
}

void* metadata_arena::allocate_sparse(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    {
      os::lock_guard guard(lock_, *this);
      if (void* block = take_locked(bytes, alignment)) return block;
    }
    if (bytes > SIZE_MAX / 2 || !extend(bytes + alignment)) return nullptr;
  }
}

void* metadata_arena::borrow_scratch(std::size_t bytes) {
  {
    os::lock_guard guard(lock_, *this);
    if (borrower_ != nullptr) return nullptr;
    borrower_ = __builtin_thread_pointer();
    if (scratch_bytes_ >= bytes) return scratch_;
  }
  // Addresses that are left behind: at most as many as are used.
  const std::size_t unit = os::page_unit();
  const std::size_t room = std::max(std::bit_ceil(bytes), unit);
  void* const memory = allocate_sparse(room, unit);
  os::lock_guard guard(lock_, *this);
  if (memory != nullptr) {
    scratch_ = memory;
    scratch_bytes_ = room;
  } else {
    borrower_ = nullptr;
  }
  return memory;
}

void metadata_arena::end_scratch() {
  void* memory = nullptr;
  std::size_t bytes = 0;
  {
    os::lock_guard guard(lock_, *this);
    memory = scratch_;
    bytes = scratch_bytes_;
  }
  if (memory != nullptr) os::purge_own(memory, bytes);
  os::lock_guard guard(lock_, *this);
  borrower_ = nullptr;
}

void metadata_arena::forget_scratch() {
  os::lock_guard guard(lock_, *this);
  if (borrower_ != __builtin_thread_pointer()) borrower_ = nullptr;
}

bool metadata_arena::ensure_available(std::size_t bytes) {
  for (;;) {
    {
      os::lock_guard guard(lock_, *this);
      if (end_ - next_ >= bytes) return true;
    }
    if (!extend(bytes)) return false;
  }
}

void* metadata_arena::take_locked(std::size_t bytes, std::size_t alignment) {
  const std::uintptr_t start = align_up(next_, alignment);
  if (next_ == 0 || start > end_ || bytes > end_ - start) return nullptr;
  next_ = start + bytes;
  return reinterpret_cast<void*>(start);
}

// Makes [next_, end_) longer, to `bytes` bytes if possible. True: it became longer, by this thread or by another one;
// the caller tries again. False: there is no memory.
bool metadata_arena::extend(std::size_t bytes) {
  std::uintptr_t from = 0;
  std::size_t room = 0;
  std::size_t available = 0;
  {
    os::lock_guard guard(lock_, *this);
    from = end_;
    room = limit_ - end_;
    available = end_ - next_;
  }
  if (available >= bytes) return true;
  const std::size_t missing = bytes - available;
  if (missing > room) return new_region(bytes);
  return open_chunk(from, align_up(missing, smallest_chunk_bytes), room) || new_region(bytes);
}

// Makes [from, from + `least`) or more writable. Two threads may do this to the same chunk without harm: the first to
// return moves end_.
bool metadata_arena::open_chunk(std::uintptr_t from, std::size_t least, std::size_t room) {
  const std::size_t wanted = least > chunk_bytes ? least : chunk_bytes;
  std::size_t size = wanted < room ? wanted : room;
  if (!os::allow_access(reinterpret_cast<void*>(from), size)) {
    size = least;
    if (!os::allow_access(reinterpret_cast<void*>(from), size)) return false;
  }
  os::lock_guard guard(lock_, *this);
  if (end_ == from) end_ = from + size;
  return true;
}

bool metadata_arena::new_region(std::size_t bytes) {
  const std::size_t least = align_up(bytes, smallest_chunk_bytes);
  if (least < bytes) return false;
  std::size_t size = 0;
  {
    os::lock_guard guard(lock_, *this);
    size = reserved_ < first_region_bytes ? first_region_bytes : reserved_;
  }
  if (size > largest_region_bytes) size = largest_region_bytes;
  if (size < least) size = least;
  os::guarded_range region = os::reserve_guarded(size, smallest_chunk_bytes, os::memory_access::none);
  while (region.start == nullptr && size > least) {
    size = size / 4 > least ? align_up(size / 4, smallest_chunk_bytes) : least;
    region = os::reserve_guarded(size, smallest_chunk_bytes, os::memory_access::none);
  }
  std::size_t open = least;
  if (region.start == nullptr || !os::allow_access(region.start, least)) {
    // mprotect is forbidden here or fails: reserve memory that is writable from the start, and no more than needed.
    if (region.start != nullptr) os::release(region);
    region = os::reserve_guarded(least, smallest_chunk_bytes, os::memory_access::read_write);
    if (region.start == nullptr) return false;
    open = region.bytes;
  }
  // Structures are scattered: with the system's huge pages set to `always`, each could back 2 MiB. Best effort.
  os::advise_no_huge(region.start, region.bytes);
  {
    os::lock_guard guard(lock_, *this);
    // Another thread may have added a region meanwhile: use that one up first. Only what is open counts: the system may
    // refuse to open the rest.
    if (end_ - next_ < bytes) {
      next_ = address_of(region.start);
      end_ = next_ + open;
      limit_ = region.end();
      reserved_ += region.bytes;
      return true;
    }
  }
  os::release(region);
  return true;
}

}  // namespace tarn
