// SPDX-License-Identifier: MIT
// hardened_large: what the hardened build does to large blocks. After each block lies an inaccessible guard; where
// guards take mappings (before Linux 6.13, and in locked memory), after at most 4,096 blocks. A freed block becomes
// inaccessible as a whole, without memory, until as many other blocks have been freed as the quarantine has places.
//
//     span:  | block ... usable_bytes() | guard |
//
// Thread safety: all functions may be called by any thread. They call the system: never under a lock.
#pragma once

#include <cstddef>

#include "pages/span.hpp"

namespace tarn::hardened_large {

// The pages by which a span is longer than its block.
std::size_t guard_pages();
// The bytes of the block in a span of that length.
std::size_t usable_bytes(const span* s);
// Makes the guard after the block inaccessible.
void guard_end(span* s);

// Frees the block: its span waits inaccessible in the quarantine, and then goes back to the page heap, as clean if it
// has no memory. If the system does not remove the guard (the table of mappings is full), the span stays out of use,
// and a later call tries again.
void retire(span* s);
// Memory is short: gives the oldest waiting span back to the page heap now. False: none waits.
bool release_one();

}  // namespace tarn::hardened_large
