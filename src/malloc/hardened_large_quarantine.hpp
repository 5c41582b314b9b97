// SPDX-License-Identifier: MIT
// hardened_large_quarantine: freed blocks of size classes above those of thread quarantines
// (thread/hardened_quarantine.hpp), and blocks of threads without a cache, wait here before they may be handed out again.
//
// One for the process. Two kinds by size, each first in a queue, in the order in which blocks were freed, then at a
// random place among as many again. Bytes are bounded: 4 MiB of objects up to 16 KiB, 4 MiB of larger ones.
// Thread safety: all functions may be called by any thread; there is no lock, so fork needs nothing.
#pragma once

#include <cstddef>

namespace tarn::hardened_large_quarantine {

// Takes a block of `size` bytes in. Returns the one that leaves, of any size of its kind, or null.
void* exchange(void* block, std::size_t size);

}  // namespace tarn::hardened_large_quarantine
