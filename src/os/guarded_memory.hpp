// SPDX-License-Identifier: MIT
// guarded_memory: address space at a place of its own, with a range at both ends that faults on every access.
//
// A write that runs past either end of such a range stops at the guard, and never reaches what another range holds.
// Thread safety: all functions may be called by any thread. Each enters the kernel: never under a lock. Failure is a
// result, never an abort. No address is named that could hold another mapping: MAP_FIXED is never used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::os {

// At each end; a multiple of every system's page.
inline constexpr std::size_t guard_bytes = 64 * 1024;

struct guarded_range {
  void* start = nullptr;  // of the bytes between the guards; null: no memory
  std::size_t bytes = 0;
  bool guarded = false;  // false: the system refused the guards and gave the memory alone
  bool extends = false;  // it lies directly behind another range, without a guard between them

  [[nodiscard]] std::uintptr_t end() const { return reinterpret_cast<std::uintptr_t>(start) + bytes; }
};

enum class memory_access : std::uint8_t {
  none,        // faults everywhere until allow_access()
  read_write,  // zeroed, not yet backed
};

// `bytes` (a multiple of the system's page) aligned to `alignment` (a power of two of at least the system's page), at a
// random place; if none is free, where the system puts it. Without guards only where access is read_write and mprotect
// fails.
guarded_range reserve_guarded(std::size_t bytes, std::size_t alignment, memory_access how);

// Makes a guarded, writable range that ends at `end` longer by `bytes` (a multiple of the system's page, of at least
// guard_bytes): the guard there becomes memory, and another one is made behind it. Returns what is new; a null start, and
// nothing has changed, if the addresses behind are in use or there is no memory. Of two threads that try, one succeeds.
guarded_range extend_guarded(std::uintptr_t end, std::size_t bytes);

// Gives a range back, guards included; of one that extends another, the first guard_bytes become that one's guard again.
// Only for memory that nothing else can name yet.
void release(const guarded_range& range);

// Makes a part of a range with memory_access::none readable and writable. False: nothing has changed. Doing it twice is
// harmless.
bool allow_access(void* address, std::size_t bytes);
// Makes it fault again; its content stays, unseen. False: nothing has changed.
bool forbid_access(void* address, std::size_t bytes);
// Makes memory that is never to change again read-only. False: nothing has changed.
bool forbid_writing(void* address, std::size_t bytes);

}  // namespace tarn::os
