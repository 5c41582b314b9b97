// SPDX-License-Identifier: MIT
// hardened_zero: the blocks of 0 bytes of the hardened build. Each is an address of its own, 16 bytes from the next one,
// in one range without access: whoever reads or writes such a block ends by a fault.
//
//     range (no access):  | block 0 | block 1 | …            bits:  1 = live
//
// A freed address is handed out again after all others have had their turn. When the range is full, or the system
// refuses it, a request for 0 bytes gets an ordinary block.
// Thread safety: all functions may be called by any thread; there is no lock, so fork needs nothing.
#pragma once

#include <cstddef>

namespace tarn::hardened_zero {

inline constexpr std::size_t most_blocks = 65'536;

// Null: the range is full, or there is none.
void* allocate();
// Whether the address is in the range.
bool contains(const void* address);
// Whether a live block begins at the address. Requires: contains(address).
bool is_live(const void* address);
// Ends the process if no live block begins there. Requires: contains(block).
void deallocate(const void* block);

}  // namespace tarn::hardened_zero
