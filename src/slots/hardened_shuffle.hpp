// SPDX-License-Identifier: MIT
// hardened_shuffle: the random order in which the hardened build hands out objects.
//
// Thread safety: all functions may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn {

// From a generator of the calling thread, seeded with a secret of the process: unpredictable to an attacker who has
// seen none of its numbers, but not meant for cryptography.
std::uint64_t random_number();

// Shuffles at most largest_magazine pointers but keeps neighbours close: the array is cut into four runs of equal
// length, which are merged at random. (mimalloc's secure mode deals its free lists out in this way. A full shuffle
// would defeat the processor's prefetching: docs/design/0015.)
void riffle(void** slots, std::size_t count);

}  // namespace tarn
