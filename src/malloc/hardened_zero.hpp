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
// False: the address is not in the range. Ends the process with the message if it is, but no live block begins there.
bool is_block(const void* address, const char* fault);
// As is_block(), and frees the block.
bool deallocate(const void* block);

}  // namespace tarn::hardened_zero
