// SPDX-License-Identifier: MIT
// large_block: blocks above the largest size class; each is one span of the page heap. Freed pages stay backed there
// until they decay, so a program that repeatedly allocates and frees large blocks has their page faults only once.
//
// Thread safety: all functions may be called by any thread, for blocks that it owns. They may call the system.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pages/span.hpp"

namespace tarn::large_block {

enum class purpose : std::uint8_t {
  any,
  zeroed,  // all bytes are zero; pages known to be zero are not written to
  grown,   // takes the place of a shorter block, and is likely to grow on: it gets room behind it
};
// Requires: the size is above the largest class, or the alignment above a page. Null when there is no memory; errno is
// left alone.
void* allocate(std::size_t size, std::size_t alignment, purpose what);

// A block for a request of `size` bytes has been allocated, or has got another length: the heap profile may follow it.
void sample(span* s, std::size_t size);

// Frees the block. False if it is not a live large block any more.
bool deallocate(span* s);

// Makes the block at least `size` bytes long: in place, by moving its page tables, or by copying it. Null when there
// is no memory; the block is then unchanged.
void* resize(span* s, std::size_t size);

// Zeroes the bytes from `from` on, of a block that has become longer there: memory that is known to be zero is not written
// to.
void zero_from(const span* s, std::size_t from);

// As resize() without moving the block, also to fewer bytes. False: that is not possible; nothing has changed.
bool resize_in_place(span* s, std::size_t size);

}  // namespace tarn::large_block
