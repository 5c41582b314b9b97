// SPDX-License-Identifier: MIT
// hardened_type_spans: in the hardened build, address space that has once held objects of a typed pool holds only
// objects of the same kind of pool, for ever. A dangling pointer then points to an object of its own type, or faults.
//
// A kind of pool is its name, its objects' size and alignment, and whether it lies on huge pages; object_pool<T> has
// its type's name unless the program gives another one. A span that a pool frees stays here, without memory and, from
// Linux 6.13 on, without access, until a pool of its kind needs one. There are at most `most_kinds` kinds; spans of
// further kinds go back to the page heap.
// Thread safety: all functions may be called by any thread; there is no lock, so fork needs nothing. They enter the
// kernel: never under a lock.
#pragma once

#include <cstddef>

#include "fronts/pools/slot_layout.hpp"

namespace tarn::hardened_type_spans {

inline constexpr std::size_t most_kinds = 4096;

struct kind {
  const char* name;
  const slot_layout& layout;
  bool huge;
};

// Keeps the span, in state `purging`. Requires: the span is in no list, and no slot of it is in use. False: there are
// too many kinds, and the caller keeps the span.
bool keep(const kind& of, span* s);

// A kept span of at most `most_pages` pages, in state `pooled`, whose slots are to be carved again; or null.
span* take(const kind& of, std::size_t most_pages);

}  // namespace tarn::hardened_type_spans
