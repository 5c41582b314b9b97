// SPDX-License-Identifier: MIT
// Memory from the system and back to it. Every call here enters the kernel: never under a lock.
// Thread safety: all functions may be called by any thread. Failure is a result, never an abort.
#pragma once

#include <cstddef>

namespace tarn::os {

// The system's page size, found at run time: 4 KiB to 64 KiB.
std::size_t system_page_size();

// The machine's memory and swap space, in bytes, as the first call found them; the largest number if the system does not
// tell.
std::size_t machine_bytes();

// Zeroed, readable and writable address space, not yet backed; aligned to `alignment` (a power of two of at
// least the system's page). Null when there is none.
void* reserve(std::size_t bytes, std::size_t alignment);

// The same, but the system's overcommit policy decides whether so much memory may be promised. For single large blocks.
// `lead`: it begins so many bytes before an aligned address, a multiple of the system's page below `alignment`.
void* map_block(std::size_t bytes, std::size_t alignment, std::size_t lead = 0);

// Gives address space back. Only for memory that nothing else can name. False: the system refuses, it stays mapped.
bool release(void* address, std::size_t bytes);

// Drops the memory behind the range; it reads as zero afterwards. False: the range keeps its memory, or some of it, as
// where the system refuses, where a page is locked in memory, or where the system only pretends to drop memory.
bool purge(void* address, std::size_t bytes);

// The same for memory that is in nobody's use: locks that the program has left on it (mlock) are undone, unless the
// program has locked all its future memory (mlockall), which is meant to stay.
bool purge_free(void* address, std::size_t bytes);

// Which pages of a range, whole pages of the system, are in memory: sets bit 0 of a byte for each one; the other bits mean
// nothing. A page that is not may be in swap space. False: the system does not tell. A filter may forbid the call
// (sandbox.hpp).
bool find_resident(void* address, std::size_t bytes, unsigned char* pages);

// Backs the range with memory in one call, where the system can. False: it will be backed page by page.
bool populate(void* address, std::size_t bytes);

// Asks for huge pages in the range.
bool advise_huge(void* address, std::size_t bytes);

// Asks for ordinary pages in the range.
bool advise_no_huge(void* address, std::size_t bytes);

// Whether the system backs any memory with huge pages, asked or not (the setting `always`). Opens a file.
bool huge_pages_everywhere();

// Keeps the range in memory, out of swap space; backs all of it. False: nothing has changed. Only whole system pages.
bool lock_in_memory(void* address, std::size_t bytes);
void unlock_from_memory(void* address, std::size_t bytes);

// Whether core dumps hold the range.
void set_dumped(void* address, std::size_t bytes, bool dumped);

// Whether a forked child gets zeroes instead of the range's content.
void set_wiped_on_fork(void* address, std::size_t bytes, bool wiped);

// ---- moving by page tables ----
// No call names a destination that is in use as address space: whatever fails leaves every mapping of the process as it
// was, on each kernel since 5.7. (With MREMAP_FIXED, kernels before 6.17 unmap the destination before they find out that
// they cannot move, and another thread's next mmap lands in the hole.)

// Address space without access, as a place to move to once it has been released; arguments as of map_block(). Null
// when there is none.
void* reserve_inaccessible(std::size_t bytes, std::size_t alignment, std::size_t lead = 0);

// Moves the memory behind [from, from + bytes), whole pages of the system in one mapping, to a new mapping at `wanted`,
// or elsewhere if that has been taken meanwhile. The source stays mapped and reads as zero. Returns the new place; null
// where the system cannot move, and nothing has changed.
void* move_mapping(void* from, std::size_t bytes, void* wanted);

// Makes the mapping that ends at `end` longer by `bytes`, where it lies. False: what follows is not free.
bool extend_mapping(void* end, std::size_t bytes);

// Copies a range to one that reads as zero; pages of zeroes are not written to.
void copy_to_zeroes(void* to, const void* from, std::size_t bytes);

}  // namespace tarn::os
