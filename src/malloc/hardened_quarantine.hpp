// SPDX-License-Identifier: MIT
// hardened_quarantine: freed blocks of the hardened build wait here before they may be handed out again.
//
// Three kinds by size, each first in a queue, in the order in which blocks were freed, then at a random place among as
// many again: so a block stays away for at least the queue's length of frees, and nobody can tell when it comes back.
// Bytes are bounded: 1 MiB of objects up to 512 bytes, 4 MiB of those up to 16 KiB, 4 MiB of larger ones.
// Thread safety: all functions may be called by any thread; there is no lock, so fork needs nothing.
#pragma once

#include <cstddef>

namespace tarn::hardened_quarantine {

// Takes a block of `size` bytes in. Returns the one that leaves, of any size of its kind, or null.
void* exchange(void* block, std::size_t size);

}  // namespace tarn::hardened_quarantine
