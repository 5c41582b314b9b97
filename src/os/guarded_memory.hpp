// SPDX-License-Identifier: MIT
// guarded_memory: ranges of address space with an inaccessible guard at both ends:
//
//   +-------------+--------------------------+-------------+
//   | guard_bytes |  start … bytes … end()   | guard_bytes |
//   +-------------+--------------------------+-------------+
//
// A write that runs past either end of a range faults in the guard and cannot reach another range.
// Thread safety: all functions may be called by any thread. Each makes system calls: never call one under a lock.
// Failure is reported by the result. MAP_FIXED is never used, so no existing mapping can be overwritten.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::os {

// The length of each guard: a multiple of every possible system page.
inline constexpr std::size_t guard_bytes = 64 * 1024;

struct guarded_range {
  void* start = nullptr;  // first byte between the guards; null: no memory
  std::size_t bytes = 0;
  bool guarded = false;  // false: the system refused the guards; the memory has none
  bool extends = false;  // directly follows another range, without a guard between them

  [[nodiscard]] std::uintptr_t end() const { return reinterpret_cast<std::uintptr_t>(start) + bytes; }
};

enum class memory_access : std::uint8_t {
  none,        // faults everywhere until allow_access()
  read_write,  // zeroed, not yet backed
};

// Addresses among which a place is to be chosen; of 0 bytes: none are preferred.
struct address_window {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
};

// Reserves `bytes` (a multiple of the system's page) aligned to `alignment` (a power of two of at least the system's
// page), at a random place in the window; if the places tried are taken, at one anywhere; if they are taken too, where
// the system chooses. The result has no guards only if access is read_write and the guards could not be made.
guarded_range reserve_guarded(std::size_t bytes, std::size_t alignment, memory_access how,
                              address_window preferred = {});

// Extends a guarded, writable range that ends at `end` by `bytes` (a multiple of the system's page, at least
// guard_bytes): its guard becomes memory, and a new guard is made behind. Returns the new part. A null start: the
// addresses behind are in use or there is no memory, and nothing has changed. Of two concurrent callers, one succeeds.
guarded_range extend_guarded(std::uintptr_t end, std::size_t bytes);

// Unmaps a range with its guards. If it extends another range, its first guard_bytes become that range's guard again.
// Requires: no other thread can know an address in it yet.
void release(const guarded_range& range);

// Makes part of a range with memory_access::none readable and writable. False: nothing has changed. May be repeated.
bool allow_access(void* address, std::size_t bytes);
// Makes the memory inaccessible again; its content is kept. False: nothing has changed.
bool forbid_access(void* address, std::size_t bytes);
// Makes memory read-only, for good. False: nothing has changed.
bool forbid_writing(void* address, std::size_t bytes);

}  // namespace tarn::os
