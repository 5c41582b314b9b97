// SPDX-License-Identifier: MIT
// hardened_size: the hardened build compares the size that a program names in delete or free_sized() with the block.
//
// Thread safety: all functions may be called by any thread, for blocks that it owns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::hardened_size {

// How exactly free must name the size of a block: as operator delete does, or as free_sized() does, whose block
// realloc may have left longer than the program asked for.
enum class how_named : std::uint8_t { exact, after_realloc };

// Ends the process if no request of `size` bytes with this alignment (1: none) gives such a block as `block`. A null
// pointer, and one that is no block, is left to free().
void check(const void* block, std::size_t size, std::size_t alignment, how_named how);

}  // namespace tarn::hardened_size
