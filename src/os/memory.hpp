// SPDX-License-Identifier: MIT
// Memory from the system and back to it. Every call here enters the kernel: never under a lock.
// Thread safety: all functions may be called by any thread. Failure is a result, never an abort.
#pragma once

#include <cstddef>

namespace tarn::os {

// The system's page size, found at run time: 4 KiB to 64 KiB.
std::size_t page_size();

// The machine's memory and swap space, in bytes; the largest number if the system does not tell.
std::size_t machine_bytes();

// Zeroed, readable and writable address space, not yet backed; aligned to `alignment` (a power of two of at
// least the system's page). Null when there is none.
void* reserve(std::size_t bytes, std::size_t alignment);

// Gives address space from reserve() back. Only for memory that nothing else can name yet.
void release(void* address, std::size_t bytes);

// Drops the memory behind the range; it reads as zero afterwards. False: the range keeps its memory.
bool purge(void* address, std::size_t bytes);

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

// Moves the content of [from, from + bytes) to `to`, whose own memory is dropped, by its page tables alone (where the
// system cannot, or not for all of it, the rest is copied); [from, from + bytes) stays mapped and reads as zero. False:
// nothing has moved, and what `to` held may be lost. Both are whole pages of the system's.
bool move_pages(void* from, void* to, std::size_t bytes);

// Purges a range that move_pages() has filled, and makes its mapping one with its neighbours' again.
bool purge_moved(void* address, std::size_t bytes);

}  // namespace tarn::os
