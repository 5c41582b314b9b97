// SPDX-License-Identifier: MIT
#include "background/warm_blocks.hpp"

#include <atomic>

#include "base/hardened.hpp"
#include "engine/instance.hpp"

namespace tarn::warm_blocks {
namespace {

// A block may be as long as this part of the free memory that may stay backed.
constexpr std::size_t largest_part = 8;

// Some have been kept since the last release.
constinit std::atomic<bool> are_kept{false};
// A thread will run the next period. Without one each call of keep() sees to it that the period is run when it is due.
constinit std::atomic<bool> is_period_sure{false};

}  // namespace

bool keep(span* s) {
  // The hardened build holds freed blocks back from reuse.
  if (hardened_build || !engine::warm_large_spans.wants(s->pages)) return false;
  if (s->bytes() > engine::heap.limits().most_free() / largest_part) return false;
  engine::heap.note_backed(s);
  s->state.store(span_state::kept, std::memory_order_relaxed);
  if (!engine::warm_large_spans.put(s)) {
    s->state.store(span_state::purging, std::memory_order_relaxed);
    return false;
  }
  are_kept.store(true, std::memory_order_relaxed);
  if (TARN_UNLIKELY(!is_period_sure.load(std::memory_order_relaxed)) && engine::central_tier.wake_decay())
    is_period_sure.store(true, std::memory_order_relaxed);
  return true;
}

span* take(std::size_t pages) { return hardened_build ? nullptr : engine::warm_large_spans.take(pages); }

bool has_any() { return are_kept.load(std::memory_order_relaxed); }

void release() {
  is_period_sure.store(false, std::memory_order_relaxed);
  are_kept.store(false, std::memory_order_relaxed);
  while (span* const s = engine::warm_large_spans.take_any()) {
    engine::large_bytes.fetch_sub(s->bytes(), std::memory_order_relaxed);
    s->state.store(span_state::purging, std::memory_order_relaxed);
    engine::touch.learn_from(s->start, s->bytes());
    engine::heap.deallocate(s);
  }
}

}  // namespace tarn::warm_blocks
