// SPDX-License-Identifier: MIT
#include "malloc/large_block.hpp"

#include <algorithm>
#include <cstring>

#include "background/warm_blocks.hpp"
#include "engine/engine.hpp"
#include "malloc/hardened_large.hpp"
#include "os/memory.hpp"
#include "pages/zero_pages.hpp"

namespace tarn::large_block {
namespace {

// Page tables reach no further; also keeps page counts within 32 bits.
constexpr std::size_t largest_size = std::size_t{1} << 44;
// A growing block that is copied prefers memory of the page heap that is still backed: below roomy_below if it can double
// there, below warm_below in any case. A longer one gets a mapping of its own, whose page tables can be moved the next
// time.
constexpr std::size_t roomy_below = 64 * mib;
constexpr std::size_t warm_below = 4 * mib;
// A block that shrinks by at most 1/shrink_divisor keeps its length.
constexpr std::size_t shrink_divisor = 8;

// The span's length: whole pages of tarn and of the system. (Only whole pages of the system can have a mapping of their
// own.)
std::size_t block_pages(std::size_t size) {
  return align_up(std::max<std::size_t>(size, 1), os::page_unit()) >> page_shift;
}

// Null: no warm memory has as much room behind it.
span* take_roomy(std::size_t pages) {
  if (hardened_build || pages >= roomy_below >> page_shift) return nullptr;
  return engine::heap.allocate(pages, 1, span_state::large, page_heap::source::roomy, page_heap::use::sparse);
}

// A new span for a block that has grown, and is likely to grow on. Copying into backed memory costs less than page faults,
// and with as much room behind it the block is copied again when it has doubled, not at each step.
span* allocate_longer(std::size_t pages) {
  constexpr auto use = page_heap::use::sparse;
  if (span* s = take_roomy(pages)) return s;
  if (pages < (warm_below >> page_shift)) {
    if (span* s = engine::heap.allocate(pages, 1, span_state::large, page_heap::source::warm, use)) return s;
  }
  if (span* s = engine::heap.allocate_mapped(pages, 1, span_state::large, use)) return s;
  return engine::central_tier.take_pages(pages, 1, span_state::large, use);
}

// A new span that begins with the content of the shorter span `old`; null when there is no memory.
span* copy_to_longer(const span* old, std::size_t pages) {
  span* const s = allocate_longer(pages);
  if (s == nullptr) return nullptr;
  s->owner.store(nullptr, std::memory_order_relaxed);
  void* const to = reinterpret_cast<void*>(s->start);
  const auto* const from = reinterpret_cast<const void*>(old->start);
  if (s->dirty_pages == 0)
    os::copy_to_zeroes(to, from, old->bytes());
  else
    std::memcpy(to, from, old->bytes());
  return s;
}

// A block has another length now.
void note_resized(std::size_t before, std::size_t pages) {
  if (pages > before) {
    engine::large_bytes.fetch_add((pages - before) << page_shift, std::memory_order_relaxed);
    engine::uncached_traffic.allocated += (pages - before) << page_shift;
  } else {
    engine::large_bytes.fetch_sub((before - pages) << page_shift, std::memory_order_relaxed);
    engine::uncached_traffic.freed += (before - pages) << page_shift;
  }
}

}  // namespace

// Out of line, as a due sample takes more registers than everything else.
TARN_NOINLINE void sample_if_due(span* s, std::size_t size) {
  const std::size_t taken = hardened_build ? hardened_large::usable_bytes(s) : s->bytes();
  if (TARN_UNLIKELY(engine::profile_countdown.is_due(engine::profile_samples, taken)))
    engine::samples.add_large(engine::profile_samples, s, size, taken);
}

void sample(span* s, std::size_t size) {
  if (TARN_UNLIKELY(engine::profile_samples.mean() != 0)) sample_if_due(s, size);
}

void* allocate(std::size_t size, std::size_t alignment, purpose what) {
  if (size > largest_size || alignment > largest_size - size) return nullptr;
  const std::size_t pages = block_pages(size) + (hardened_build ? hardened_large::guard_pages() : 0);
  const std::size_t alignment_pages = std::max(alignment >> page_shift, std::size_t{1});
  const bool grown = what == purpose::grown;
  span* s = alignment_pages == 1 && !grown ? warm_blocks::take(pages) : nullptr;
  if (TARN_LIKELY(s != nullptr)) {
    s->state.store(span_state::large, std::memory_order_relaxed);
  } else {
    if (grown) s = take_roomy(pages);
    if (s == nullptr) {
      s = engine::central_tier.take_pages(
          pages, alignment_pages, span_state::large,
          what == purpose::zeroed ? page_heap::use::sparse : page_heap::use::filled);
    }
    if (s == nullptr) return nullptr;
    s->owner.store(nullptr, std::memory_order_relaxed);
    engine::large_bytes.fetch_add(s->bytes(), std::memory_order_relaxed);
  }
  engine::uncached_traffic.allocated += s->bytes();
  if (what == purpose::zeroed) zero_dirty_pages(engine::map, s);
  if constexpr (hardened_build) hardened_large::guard_end(s);
  sample(s, size);
  return reinterpret_cast<void*>(s->start);
}

bool deallocate(span* s) {
  // Of two threads that free the same block, one changes the state; the other gets false.
  span_state expected = span_state::large;
  if (!s->state.compare_exchange_strong(expected, span_state::purging, std::memory_order_relaxed))
    return false;
  engine::samples.remove_large(s);
  engine::uncached_traffic.freed += s->bytes();
  if (warm_blocks::keep(s)) return true;
  engine::large_bytes.fetch_sub(s->bytes(), std::memory_order_relaxed);
  if constexpr (hardened_build) {
    hardened_large::retire(s);
  } else {
    engine::touch.learn_from(s->start, s->bytes());
    engine::heap.deallocate(s);
  }
  return true;
}

void zero_from(const span* s, std::size_t from) { zero_dirty_pages(engine::map, s, s->start + from); }

bool resize_in_place(span* s, std::size_t size) {
  if (size > largest_size) return false;
  const std::size_t pages = block_pages(size);
  const std::size_t before = s->pages;
  if (pages > before ? !engine::heap.extend(s, pages) : pages < before && !engine::heap.shrink(s, pages))
    return false;
  note_resized(before, pages);
  if (pages != before) {
    engine::samples.remove_large(s);
    sample(s, size);
  }
  return true;
}

void* resize(span* s, std::size_t size) {
  if (size > largest_size) return nullptr;
  const std::size_t pages = block_pages(size);
  const std::size_t before = s->pages;
  if (pages <= before) {
    if (before - pages > before / shrink_divisor && engine::heap.shrink(s, pages))
      note_resized(before, pages);
    return reinterpret_cast<void*>(s->start);
  }
  span* longer = s;
  const auto end_sample = [](span* moved) { engine::samples.remove_large(moved); };
  if (!engine::heap.extend(s, pages) && !engine::heap.grow_mapping(s, pages, end_sample))
    longer = copy_to_longer(s, pages);
  if (longer == nullptr) return nullptr;
  // A mapping of its own may be longer than was asked for.
  note_resized(before, longer->pages);
  if (longer != s) {
    engine::samples.remove_large(s);
    s->state.store(span_state::purging, std::memory_order_relaxed);
    engine::heap.deallocate(s);
  }
  return reinterpret_cast<void*>(longer->start);
}

}  // namespace tarn::large_block
