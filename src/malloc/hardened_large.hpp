// SPDX-License-Identifier: MIT
// hardened_large: what the hardened build does to large blocks. Behind each lies a guard; where guards take mappings
// (before Linux 6.13, and in locked memory), behind 4,096 blocks at most. A block that is freed becomes a guard as a whole,
// without memory behind it, until as many others have been freed as the quarantine has places.
//
// Thread safety: all functions may be called by any thread. They enter the kernel: never under a lock.
#pragma once

#include <cstddef>

#include "pages/span.hpp"

namespace tarn::hardened_large {

// How many pages longer than its block a span has to be.
std::size_t guard_pages();
// Of a span that is so long.
std::size_t usable_bytes(const span* s);
// Puts the guard behind the block.
void guard_end(span* s);

// The block is freed: its span waits, without access, and then goes back to the page heap, as clean where its memory was
// dropped. Where the system would not remove its guard (the table of mappings is full), the span waits on, and is tried again.
void retire(span* s);
// All that wait go back to the page heap now; memory is short.
void release_retired();

}  // namespace tarn::hardened_large
