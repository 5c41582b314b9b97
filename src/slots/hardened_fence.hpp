// SPDX-License-Identifier: MIT
// hardened_fence: pages without access behind spans of objects, which end writes that run on from one block through many.
// From Linux 6.13 on, by markers that need no mapping; before, there are none.
//
//     | span | span | … | span | fence |      one behind each span of least_fenced bytes, and at least one in fence_distance
//                                             bytes of spans
//
// A fence is a span of the page heap in use. It is made with the span before it, and goes back with that one.
// Thread safety: all functions may be called by any thread. They call the system: never under a lock.
#pragma once

#include <cstddef>

#include "pages/page_heap.hpp"

namespace tarn::hardened_fence {

inline constexpr std::size_t least_fenced = 64 * kib;
inline constexpr std::size_t fence_distance = 128 * kib;

// The pages by which the next span of so many bytes is to be longer than its objects need; 0: it gets no fence.
std::size_t pages_due(std::size_t span_bytes);
// Makes the fence of the pages behind the first `pages` of a span just taken. False: no memory for metadata; nothing has
// changed.
bool raise(page_heap& heap, span* s, std::size_t pages);
// The span goes back to the page heap: gives back the fence behind it, if there is one. If the system does not remove
// it, it stays.
void lower(page_heap& heap, const page_map& map, const span* s);
// The pages of all fences of all heaps. For tests.
std::size_t pages();

}  // namespace tarn::hardened_fence
