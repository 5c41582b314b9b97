// SPDX-License-Identifier: MIT
// warm_blocks: large blocks that are free and wait for the next request of their length (pages/warm_spans.hpp), and when
// they go back to the page heap: at the end of each period of decay, and when memory is short.
//
// Thread safety: any thread, without locks.
#pragma once

#include <cstddef>

#include "base/compiler.hpp"

namespace tarn {

struct span;

namespace warm_blocks {

#pragma GCC visibility push(hidden)

// Keeps a freed block's span. Requires: only the caller has it; its state is `purging`. False: it is to go to the page heap.
bool keep(span* s);
// A span of exactly so many pages, whose state the caller sets; it has no sample. Null: none is kept.
span* take(std::size_t pages);
// Whether any is kept (a hint).
bool has_any();
// Gives all to the page heap. False: there was none.
bool release();

#pragma GCC visibility pop

}  // namespace warm_blocks

}  // namespace tarn
