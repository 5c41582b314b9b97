// SPDX-License-Identifier: MIT
// hardened_large_quarantine: freed blocks of size classes above those of thread quarantines
// (threads/hardened_quarantine.hpp), and blocks freed by threads without a cache, wait here before they can be handed
// out again.
//
// One for the process. It has two kinds by size; each block is first in a queue, in the order of the frees, then at a
// random place of an array as long as the queue. The bytes are bounded: 4 MiB of objects up to 16 KiB, 4 MiB of larger
// ones.
// Thread safety: all functions may be called by any thread; there is no lock, so fork needs nothing.
#pragma once

#include <cstddef>

namespace tarn::hardened_large_quarantine {

// Puts a block of `size` bytes in. Returns the block that leaves, of any size of the same kind, or null.
void* exchange(void* block, std::size_t size);

// Memory is short: takes all blocks out and calls visit() for each. `visit` may free blocks.
void take_all(void (*visit)(void* block));

}  // namespace tarn::hardened_large_quarantine
