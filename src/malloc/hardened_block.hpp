// SPDX-License-Identifier: MIT
// hardened_block: what the hardened build does to every block of a size class when it is handed out and taken back.
//
//   - Live bits. A bit of each object, in its span, is set exactly while a program owns the object. Of two threads that
//     free one block, one clears the bit and the other one ends the process; what the program writes changes nothing.
//   - Canaries. The last eight bytes of an object hold a secret of the process combined with the object's address; usable
//     bytes end before them. They are checked when the block is freed or resized, those of the object before it too.
//   - Zeroes. A block that is freed is zeroed. It must be zero still when it leaves the quarantine, and when it is handed
//     out again, but for its first word, which then holds the mark and is cleared.
//   - Quarantine (hardened_quarantine.hpp). A freed block is not handed out before thousands of others have been freed.
//
// Thread safety: all functions may be called by any thread, for blocks that are theirs; what is wrong ends the process.
#pragma once

#include <cstddef>

#include "pages/page_map.hpp"

namespace tarn::hardened_block {

// Of each object.
inline constexpr std::size_t canary_bytes = 8;

// The bytes of an object that can serve a request of `size` bytes. Requires: size <= largest_class_size - canary_bytes.
constexpr std::size_t padded(std::size_t size) { return (size == 0 ? 1 : size) + canary_bytes; }

// `object`, of the class, has just come out of a magazine or span. Ends the process if it was written to while free.
void hand_out(void* object, unsigned size_class);

// What is wrong with freeing or resizing `block`, at which an object of the page's span begins; or null.
const char* fault_of(page_map::entry page, const void* block);

// The program gives `block` back. Ends the process if it is not live, or bytes around it were written to. Returns the
// block that leaves the quarantine for it, all of it zero, or null.
void* take_back(page_map::entry page, void* block);

}  // namespace tarn::hardened_block
