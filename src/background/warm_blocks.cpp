// SPDX-License-Identifier: MIT
#include "background/warm_blocks.hpp"

#include "base/fence.hpp"
#include "base/hardened.hpp"
#include "engine/instance.hpp"
#include "os/own_threads/thread.hpp"

namespace tarn::warm_blocks {
namespace {

// The blocks of one doubling may be this part of the free memory that may stay backed.
constexpr std::size_t largest_part = 8;

}  // namespace

bool keep(span* s) {
  // The hardened build holds freed blocks back from reuse.
  if constexpr (hardened_build) return false;
  const std::size_t most_kept = (engine::heap.limits().most_free(0) / largest_part) >> page_shift;
  const warm_spans::places places = engine::warm_large_spans.places_for(s->pages, most_kept);
  if (places.most == 0) return false;
  engine::heap.note_backed(s);
  s->state.store(span_state::kept, std::memory_order_relaxed);
  if (!warm_spans::put(s, places)) {
    s->state.store(span_state::purging, std::memory_order_relaxed);
    return false;
  }
  // Partner: the one in leave_thread(). Either we see that the thread leaves, or it sees the block.
  full_fence();
  if (TARN_UNLIKELY(!os::background_thread_runs())) engine::central_tier.wake_decay();
  return true;
}

span* take(std::size_t pages) { return hardened_build ? nullptr : engine::warm_large_spans.take(pages); }

bool has_any() { return engine::warm_large_spans.bytes() != 0; }

bool release() {
  bool any = false;
  while (span* const s = engine::warm_large_spans.take_any()) {
    engine::large_bytes.fetch_sub(s->bytes(), std::memory_order_relaxed);
    s->state.store(span_state::purging, std::memory_order_relaxed);
    engine::touch.learn_from(s->start, s->bytes());
    engine::heap.deallocate(s);
    any = true;
  }
  return any;
}

}  // namespace tarn::warm_blocks

bool tarn::give_back_warm_blocks() {
  return engine::warm_large_spans.may_have_any() && warm_blocks::release();
}
