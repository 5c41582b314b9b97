// SPDX-License-Identifier: MIT
// hardened_type_home: address space that has once held objects of a typed pool holds objects of the same kind of pool
// for ever, in the hardened build. A pointer that is left over points to an object of its own type, or faults.
//
// A kind of pool is its name, its objects' size and alignment, and whether it lies on huge pages; object_pool<T> has its
// type's name unless the program gives another one. A span that a pool gives up waits here, without memory and, from
// Linux 6.13 on, without access, for the next pool of its kind. Spans of at most `most_kinds` kinds: further kinds' spans
// go back to the page heap.
// Thread safety: all functions may be called by any thread; there is no lock, so fork needs nothing. They enter the
// kernel: never under a lock.
#pragma once

#include <cstddef>

#include "pool/slot_layout.hpp"

namespace tarn::hardened_type_home {

inline constexpr std::size_t most_kinds = 4096;

struct kind {
  const char* name;
  const slot_layout& layout;
  bool huge;
};

// The span is in no list and nothing in it is in use; it waits in state `purging`. False: it has to go elsewhere.
bool keep(const kind& of, span* s);

// A span that was kept, of at most so many pages, in state `pooled`, to be cut anew; or null.
span* take(const kind& of, std::size_t most_pages);

}  // namespace tarn::hardened_type_home
