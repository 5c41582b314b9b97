// SPDX-License-Identifier: MIT
// Zeroes of a span for whoever asks for zeroes: pages that are zero already are not touched, nor, in runs of 1 MiB and
// more, pages without memory behind them, which the page map may not know: a freed block counts as backed as a whole.
// Thread safety: any thread, for its own span; not under a lock, as the system is called.
#pragma once

#include "pages/page_map.hpp"
#include "pages/span.hpp"

namespace tarn {

// Zeroes the pages of a new span that may hold old bytes. Requires: the span was just handed out, and nobody has
// written to it since. Returns the bytes written.
std::size_t zero_dirty_pages(const page_map& map, const span* s);

}  // namespace tarn
