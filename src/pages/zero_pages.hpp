// SPDX-License-Identifier: MIT
// zero_dirty_pages: zeroes a span for a caller that needs zeroed memory. Pages that are zero already are not touched.
// In runs of 1 MiB and more, pages without memory are not touched either: the page map may not know them, since a freed
// block counts as backed from end to end.
// Thread safety: any thread, for a span of its own; not under a lock, since it makes system calls.
#pragma once

#include "pages/page_map.hpp"
#include "pages/span.hpp"

namespace tarn {

// Zeroes the pages of a new span that may hold old bytes. Requires: the span was just handed out, and nobody has
// written to it since. Returns the bytes written.
std::size_t zero_dirty_pages(const page_map& map, const span* s);
// The same from the address `from` on, of a span that has become longer there. Requires: it begins a page.
std::size_t zero_dirty_pages(const page_map& map, const span* s, std::uintptr_t from);

}  // namespace tarn
