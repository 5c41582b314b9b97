// SPDX-License-Identifier: MIT
#include "malloc/large_block.hpp"

#include <algorithm>
#include <cstring>

#include "os/memory.hpp"
#include "pages/zero_pages.hpp"
#include "runtime/engine.hpp"

namespace tarn::large_block {
namespace {

// Page tables reach no further; also keeps page counts within 32 bits.
constexpr std::size_t largest_size = std::size_t{1} << 44;
// Below this, copying bytes is cheaper than a system call that moves page tables.
constexpr std::size_t move_from = 512 * kib;
// Shorter by less than this part, a block keeps its length.
constexpr std::size_t shrink_divisor = 8;

// A fresh span takes over the memory of `old`, up to the shorter one's end.
bool move_content(span* old, span* fresh) {
  const std::size_t bytes = std::min(old->bytes(), fresh->bytes());
  void* const from = reinterpret_cast<void*>(old->start);
  void* const to = reinterpret_cast<void*>(fresh->start);
  if (bytes >= move_from && bytes % os::page_size() == 0 && os::move_pages(from, to, bytes)) {
    fresh->moved = true;
    return true;
  }
  std::memcpy(to, from, bytes);
  return false;
}

}  // namespace

void* allocate(std::size_t size, std::size_t alignment, bool zeroed) {
  if (size > largest_size || alignment > largest_size - size) return nullptr;
  const std::size_t pages = std::max<std::size_t>(pages_for(size), 1);
  const std::size_t alignment_pages = std::max(alignment >> page_shift, std::size_t{1});
  span* s = engine::middle.take_pages(pages, alignment_pages, span_state::large,
                                      zeroed ? page_heap::use::sparse : page_heap::use::filled);
  if (s == nullptr) return nullptr;
  engine::large_bytes.fetch_add(s->bytes(), std::memory_order_relaxed);
  if (zeroed) zero_dirty_pages(engine::map, s);
  return reinterpret_cast<void*>(s->start);
}

span* find(const void* block) {
  span* s = engine::map.span_of(address_of(block));
  if (s == nullptr || s->state.load(std::memory_order_relaxed) != span_state::large ||
      s->start != address_of(block)) {
    return nullptr;
  }
  return s;
}

bool deallocate(span* s) {
  // Of two threads that free the same block, one wins.
  span_state expected = span_state::large;
  if (!s->state.compare_exchange_strong(expected, span_state::purging, std::memory_order_relaxed))
    return false;
  engine::large_bytes.fetch_sub(s->bytes(), std::memory_order_relaxed);
  engine::heap.deallocate(s);
  return true;
}

void* resize(span* s, std::size_t size) {
  if (size > largest_size) return nullptr;
  const std::size_t pages = pages_for(size);
  const std::size_t before = s->pages;
  if (pages <= before) {
    if (before - pages > before / shrink_divisor && engine::heap.shrink(s, pages)) {
      engine::large_bytes.fetch_sub((before - pages) << page_shift, std::memory_order_relaxed);
    }
    return reinterpret_cast<void*>(s->start);
  }
  if (engine::heap.extend(s, pages)) {
    engine::large_bytes.fetch_add((pages - before) << page_shift, std::memory_order_relaxed);
    return reinterpret_cast<void*>(s->start);
  }
  span* fresh = engine::middle.take_pages(pages, 1, span_state::large, page_heap::use::sparse);
  if (fresh == nullptr) return nullptr;
  const bool moved = move_content(s, fresh);
  engine::large_bytes.fetch_add((pages - before) << page_shift, std::memory_order_relaxed);
  s->state.store(span_state::purging, std::memory_order_relaxed);
  engine::heap.deallocate(s, moved ? page_backing::clean : page_backing::young);
  return reinterpret_cast<void*>(fresh->start);
}

}  // namespace tarn::large_block
