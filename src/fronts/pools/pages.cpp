// SPDX-License-Identifier: MIT
// The functions of tarn/detail/pages.hpp, and that of tarn/detail/arena_core.hpp.
#include "tarn/detail/pages.hpp"

#include <algorithm>
#include <cerrno>

#include "background/reclaim.hpp"
#include "engine/engine.hpp"
#include "os/report.hpp"
#include "tarn/detail/arena_core.hpp"

using namespace tarn;

namespace {

// Larger requests fail at once: page tables reach no further.
constexpr std::size_t most_bytes = std::size_t{1} << 44;

}  // namespace

void* tarn_pages_take(std::size_t* bytes) noexcept {
  engine::attach_thread();
  span* s = nullptr;
  if (*bytes <= most_bytes) {
    const std::size_t pages = std::max<std::size_t>(pages_for(*bytes), 1);
    s = engine::take_or_reclaim(
        [=] { return engine::central_tier.take_pages(pages, 1, span_state::arena, page_heap::use::dense); });
  }
  if (s == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  *bytes = s->bytes();
  engine::arena_bytes.fetch_add(s->bytes(), std::memory_order_relaxed);
  return reinterpret_cast<void*>(s->start);
}

void tarn_pages_give(void* pages) noexcept {
  span* const s = engine::map.span_of(address_of(pages));
  span_state expected = span_state::arena;
  if (s == nullptr || s->start != address_of(pages) ||
      !s->state.compare_exchange_strong(expected, span_state::purging, std::memory_order_relaxed)) {
    os::fatal("pages returned that were not allocated", pages);
  }
  engine::arena_bytes.fetch_sub(s->bytes(), std::memory_order_relaxed);
  engine::heap.deallocate(s);
}

void tarn_arena_fatal(const char* what, const void* where) noexcept { os::fatal(what, where); }
