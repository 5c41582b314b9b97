// SPDX-License-Identifier: MIT
#include "slots/hardened_fence.hpp"

#include <atomic>

#include "base/hardened.hpp"
#include "os/hardened_guard.hpp"
#include "os/memory.hpp"
#include "os/sandbox.hpp"

namespace tarn::hardened_fence {
namespace {

std::atomic<std::size_t> since_last{0};
std::atomic<std::size_t> live_pages{0};
// The system has refused a marker: it knows none, or all memory is locked.
std::atomic<bool> refused{false};
// The owner of a fence. Its address only: nobody reads it.
char is_fence = 0;

}  // namespace

std::size_t pages_due(std::size_t span_bytes) {
  if (refused.load(std::memory_order_relaxed) || os::has_entered_sandbox()) return 0;
  const std::size_t since = since_last.fetch_add(span_bytes, std::memory_order_relaxed) + span_bytes;
  if (span_bytes < least_fenced && since < fence_distance) return 0;
  since_last.store(0, std::memory_order_relaxed);
  return guard_pages_for(os::system_page_size());
}

bool raise(page_heap& heap, span* s, std::size_t pages) {
  span* const fence = heap.split(s, pages);
  if (fence == nullptr) return false;
  fence->state.store(span_state::purging, std::memory_order_relaxed);
  const os::address_range whole = os::whole_units(fence->start, fence->end());
  if (os::mark_guard(whole.memory(), whole.bytes())) {
    fence->owner.store(&is_fence, std::memory_order_relaxed);
    live_pages.fetch_add(fence->pages, std::memory_order_relaxed);
  } else {
    refused.store(true, std::memory_order_relaxed);
    heap.deallocate(fence);
  }
  return true;
}

void lower(page_heap& heap, const page_map& map, const span* s) {
  span* const fence = map.visible_span_of(s->end());
  if (fence == nullptr || fence->owner.load(std::memory_order_relaxed) != &is_fence ||
      fence->start != s->end() || os::has_entered_sandbox())
    return;
  const os::address_range whole = os::whole_units(fence->start, fence->end());
  if (!os::remove_guard(whole.memory(), whole.bytes())) return;
  fence->owner.store(nullptr, std::memory_order_relaxed);
  live_pages.fetch_sub(fence->pages, std::memory_order_relaxed);
  heap.deallocate(fence);
}

std::size_t pages() { return live_pages.load(std::memory_order_relaxed); }

}  // namespace tarn::hardened_fence
