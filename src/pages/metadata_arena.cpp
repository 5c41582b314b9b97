// SPDX-License-Identifier: MIT
#include "pages/metadata_arena.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "os/guarded_memory.hpp"
#include "os/memory.hpp"

namespace tarn {
namespace {

// A region is as long as all earlier regions together, within these bounds, and shorter where there is no address space for
// `shares` of them: the program's own mappings and the stacks of its threads must find room, too.
constexpr std::size_t first_region_bytes = 64 * mib;
constexpr std::size_t shares = 8;
constexpr std::size_t largest_region_bytes = 16 * gib;
// How much of a region is made writable at a time.
constexpr std::size_t chunk_bytes = 4 * mib;
// Where address space is short, regions and chunks are multiples of this.
constexpr std::size_t smallest_chunk_bytes = 64 * kib;
// The length of regions once others have lacked address space.
constexpr std::size_t short_region_bytes = 1 * mib;
// Shorter blocks come from runs of this length, so that a small program's lie on few pages.
constexpr std::size_t small_bytes = 8 * kib;
constexpr std::size_t small_run_bytes = 64 * kib;

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

void metadata_arena::forget_others() {
  os::lock_guard guard(lock_, *this);
  if (borrower_ != __builtin_thread_pointer()) borrower_ = nullptr;
  openers_ = 0;
}

bool metadata_arena::give_back_unopened() {
  std::uintptr_t from = 0;
  std::uintptr_t end = 0;
  {
    os::lock_guard guard(lock_, *this);
    is_short_ = true;
    if (openers_ != 0 || limit_ - open_.end <= os::guard_bytes) return false;
    // The first bytes that go become the guard; the guard behind goes, too.
    from = open_.end + os::guard_bytes;
    end = limit_ + os::guard_bytes;
    reserved_ -= limit_ - open_.end;
    for (std::size_t i = 0; i < region_count(); ++i)
      if (regions_[i].end == limit_) regions_[i].end = open_.end;
    limit_ = open_.end;
  }
  return os::release_own(reinterpret_cast<void*>(from), end - from);
}

bool metadata_arena::ensure_available(std::size_t bytes) {
  for (;;) {
    {
      os::lock_guard guard(lock_, *this);
      if (open_.left() >= bytes) return true;
    }
    if (!extend(bytes)) return false;
  }
}

std::uintptr_t metadata_arena::row::cut(std::size_t bytes, std::size_t alignment) {
  const std::uintptr_t start = align_up(next, alignment);
  if (next == 0 || start > end || bytes > end - start) return 0;
  next = start + bytes;
  return start;
}

void* metadata_arena::take_locked(std::size_t bytes, std::size_t alignment) {
  std::uintptr_t start = 0;
  if (bytes + alignment <= small_bytes) {
    start = small_.cut(bytes, alignment);
    if (const std::uintptr_t run = start == 0 ? open_.cut(small_run_bytes, os::page_unit()) : 0; run != 0) {
      small_ = {run, run + small_run_bytes};
      start = small_.cut(bytes, alignment);
    }
  }
  if (start == 0) start = open_.cut(bytes, alignment);
  return reinterpret_cast<void*>(start);
}

// Makes open_ longer, to `bytes` bytes if possible. True: it became longer, by this thread or by another one;
// the caller tries again. False: there is no memory.
bool metadata_arena::extend(std::size_t bytes) {
  std::uintptr_t from = 0;
  std::size_t room = 0;
  std::size_t available = 0;
  {
    os::lock_guard guard(lock_, *this);
    from = open_.end;
    room = limit_ - open_.end;
    available = open_.left();
    if (available >= bytes) return true;
    if (bytes - available <= room) ++openers_;
  }
  const std::size_t missing = bytes - available;
  if (missing > room) return new_region(bytes);
  return open_chunk(from, align_up(missing, smallest_chunk_bytes), room) || new_region(bytes);
}

// Makes a chunk of the `room` bytes from `from` writable, or if the system refuses that, `least` bytes. Returns how many.
std::size_t metadata_arena::open(std::uintptr_t from, std::size_t least, std::size_t room) {
  for (const std::size_t size : {std::min(std::max(least, chunk_bytes), room), least}) {
    if (os::allow_access(reinterpret_cast<void*>(from), size)) return size;
  }
  return 0;
}

// Two threads may do this to the same chunk without harm: the first to return moves its end.
bool metadata_arena::open_chunk(std::uintptr_t from, std::size_t least, std::size_t room) {
  const std::size_t size = open(from, least, room);
  os::lock_guard guard(lock_, *this);
  if (openers_ != 0) --openers_;  // 0 in a forked child
  if (size != 0 && open_.end == from) open_.end = from + size;
  return size != 0;
}

bool metadata_arena::new_region(std::size_t bytes) {
  const std::size_t least = align_up(bytes, smallest_chunk_bytes);
  if (least < bytes) return false;
  std::size_t size = 0;
  {
    os::lock_guard guard(lock_, *this);
    size = is_short_ ? short_region_bytes : std::max(reserved_, first_region_bytes);
  }
  size = std::max(std::min(size, largest_region_bytes), least);
  while (size > least && !os::has_address_space(shares * size))
    size = std::max(align_up(size / 4, smallest_chunk_bytes), least);
  os::guarded_range region = os::reserve_guarded(size, smallest_chunk_bytes, os::memory_access::none);
  std::size_t opened = region.start != nullptr ? open(address_of(region.start), least, region.bytes) : 0;
  if (opened == 0) {
    // mprotect is forbidden here or fails: reserve memory that is writable from the start, and no more than needed.
    if (region.start != nullptr) os::release(region);
    region = os::reserve_guarded(least, smallest_chunk_bytes, os::memory_access::read_write);
    if (region.start == nullptr) return false;
    opened = region.bytes;
  }
  // Structures are scattered: each could back 2 MiB. Best effort.
  if (!is_never_huge_.load(std::memory_order_relaxed)) os::advise_no_huge(region.start, region.bytes);
  {
    os::lock_guard guard(lock_, *this);
    // Another thread may have added a region meanwhile: use that one up first. Only what is open counts: the system may
    // refuse to open the rest.
    if (open_.left() < bytes) {
      open_ = {address_of(region.start), address_of(region.start) + opened};
      limit_ = region.end();
      reserved_ += region.bytes;
      if (const std::size_t count = region_count(); count < most_regions) {
        regions_[count] = {address_of(region.start), region.end()};
        region_count_.store(count + 1, std::memory_order_relaxed);
      }
      return true;
    }
  }
  os::release(region);
  return true;
}

}  // namespace tarn
