// SPDX-License-Identifier: MIT
// hardened_shuffle: the random order in which the hardened build hands out objects.
//
// Thread safety: all functions may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn {

// From a generator of the calling thread's own, seeded with a secret of the process: not to be guessed by who has seen
// none of its numbers; it is not meant for cryptography.
std::uint64_t random_number();

// Puts at most largest_magazine pointers into a random order that keeps neighbours near: four runs of equal length, each
// in its order, are dealt out at random. (mimalloc's secure mode deals its free lists so. A full shuffle makes the
// processor's prefetching useless: docs/design/0015.)
void riffle(void** slots, std::size_t count);

}  // namespace tarn
