// SPDX-License-Identifier: MIT
// memory: mmap, madvise and related calls. All functions except copy_to_zeroes(), and the queries once they are cached,
// make system calls: never call one under a lock. release() and the purges may run code of another library that listens
// for memory that goes (memory_calls.hpp), and that code may allocate.
// Thread safety: all functions may be called by any thread. Failure is reported by the result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace tarn::os {

// The system's page size, found at run time: 4 KiB to 64 KiB.
std::size_t system_page_size();

// The larger one of the system's page and tarn's.
inline std::size_t page_unit() { return std::max(page_size, system_page_size()); }

// A part of the address space, [start, end).
struct address_range {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool empty() const { return start >= end; }
  [[nodiscard]] void* memory() const { return reinterpret_cast<void*>(start); }
  [[nodiscard]] std::size_t bytes() const { return end - start; }
};
// What lies in whole units of [start, end); it may be empty.
inline address_range whole_units(std::uintptr_t start, std::uintptr_t end,
                                 std::size_t unit = system_page_size()) {
  return {align_up(start, unit), align_down(end, unit)};
}

// The machine's memory plus swap space in bytes, as the first call found it; SIZE_MAX: the system does not tell.
std::size_t machine_bytes();

// The processor's last-level cache in bytes; 0: the system does not tell.
std::size_t last_level_cache_bytes();

// Reserves zeroed, readable and writable address space, not yet backed, aligned to `alignment` (a power of two of at
// least the system's page). Null: there is none.
void* reserve(std::size_t bytes, std::size_t alignment);

// The same for single large blocks: the system's overcommit policy decides whether it may promise so much memory. The
// block begins `lead` bytes before an aligned address (`lead`: a multiple of the system's page, below `alignment`).
void* map_block(std::size_t bytes, std::size_t alignment, std::size_t lead = 0);

// Whether so many bytes more could be reserved now, if nothing is to be written to them.
bool has_address_space(std::size_t bytes);

// Whether reserve() and reserve_guarded() would find so much memory now: the limits of address space and of writable
// memory and the overcommit policy allow it. Backs nothing, even if the program has locked all future memory
// (mlockall).
bool can_reserve(std::size_t bytes);

// Unmaps address space that no other thread uses. False: the system refuses; it stays mapped.
bool release(void* address, std::size_t bytes);

// Drops the memory behind the range, which reads as zero afterwards. False: some or all of it is kept: the system
// refuses, a page is locked in memory, or the system only pretends to drop memory.
bool purge(void* address, std::size_t bytes);

// The same as release() and purge() for the engine's own structures, which the program has never seen: nobody listens
// for them.
bool release_own(void* address, std::size_t bytes);
bool purge_own(void* address, std::size_t bytes);

// The same as purge() for free memory: also undoes locks that the program has left on it (mlock), unless the program has locked
// all future memory (mlockall): then the memory is kept.
bool purge_free(void* address, std::size_t bytes);

// Which system pages of a range are resident: sets bit 0 of one byte per page; the other bits are undefined. A page
// that is not resident may be in swap space. False: the system does not tell. A seccomp filter may forbid the call
// (sandbox.hpp).
bool find_resident(void* address, std::size_t bytes, unsigned char* pages);

// Backs the range with memory in one call. False: the system cannot; pages are backed at first touch.
bool populate(void* address, std::size_t bytes);

// Enables huge pages for the range.
bool advise_huge(void* address, std::size_t bytes);

// Disables huge pages for the range.
bool advise_no_huge(void* address, std::size_t bytes);

// Whether the system uses huge pages without being asked (its setting is `always`). Opens a file.
bool huge_pages_everywhere();

// Backs the range, whole system pages, and keeps it out of swap space. False: nothing is locked.
bool lock_in_memory(void* address, std::size_t bytes);
void unlock_from_memory(void* address, std::size_t bytes);

// Sets whether core dumps contain the range.
void set_dumped(void* address, std::size_t bytes, bool dumped);

// Sets whether a forked child finds zeroes instead of the range's content.
void set_wiped_on_fork(void* address, std::size_t bytes, bool wiped);

// ---- moving by page tables ----
// No call overwrites existing address space: if one fails, every mapping of the process stays as it was, on each kernel
// since 5.7. (With MREMAP_FIXED, kernels before 6.17 unmap the destination before they find out that they cannot move,
// and another thread's next mmap may land in the hole.)

// Reserves inaccessible address space; arguments as for map_block(). The caller releases it just before it moves a
// mapping there. Null: there is none.
void* reserve_inaccessible(std::size_t bytes, std::size_t alignment, std::size_t lead = 0);

// Moves the memory of [from, from + bytes), whole system pages in one mapping, to a new mapping at `wanted`, or
// elsewhere if that place has been taken. The source stays mapped and reads as zero. Returns the new place; null: the
// system cannot move it, and nothing has changed.
void* move_mapping(void* from, std::size_t bytes, void* wanted);

// Extends the mapping that ends at `end` by `bytes` in place. False: the addresses behind are not free.
bool extend_mapping(void* end, std::size_t bytes);

// Copies a range to one that reads as zero; does not write pages that would stay zero.
void copy_to_zeroes(void* to, const void* from, std::size_t bytes);

}  // namespace tarn::os
