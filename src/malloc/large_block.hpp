// SPDX-License-Identifier: MIT
// Large blocks: one span each, straight from the page heap. What is freed stays warm there until it decays,
// so a program that takes and gives back big buffers pays for their pages once.
#pragma once

#include <cstddef>

#include "pages/span.hpp"

namespace tarn::large_block {

// Requires a size above the largest class, or an alignment above a page. Null when there is no memory; errno
// is left alone. `zeroed`: all bytes are zero, and pages that are zero already are not touched.
void* allocate(std::size_t size, std::size_t alignment, bool zeroed);

// The block's span, or null if the address is not that of a live large block.
span* find(const void* block);

// False if the block is not a live large one any more.
bool deallocate(span* s);

// Makes the block `size` bytes long, in place or by moving its page tables. Null: no memory, the block is
// whole.
void* resize(span* s, std::size_t size);

}  // namespace tarn::large_block
