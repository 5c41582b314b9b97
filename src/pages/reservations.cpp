// SPDX-License-Identifier: MIT
#include "pages/reservations.hpp"

#include "os/guarded_memory.hpp"

namespace tarn {

void reservations::add(span* s) {
  s->state.store(span_state::no_memory, std::memory_order_relaxed);
  list_.push_front(s);
}

bool reservations::extend(std::uintptr_t end, std::size_t bytes) {
  for (span* r = list_.front(); r != nullptr; r = r->next) {
    if (r->end() != end) continue;
    r->pages += static_cast<std::uint32_t>(bytes >> page_shift);
    return true;
  }
  return false;
}

span* reservations::around(std::uintptr_t start, std::uintptr_t end) const {
  for (span* r = list_.front(); r != nullptr; r = r->next) {
    if (r->start <= start && end <= r->end()) return r;
  }
  return nullptr;
}

// Where a reservation has been unmapped as a whole, another one may lie around its addresses already. Where it has not, a
// guard at the hole's end is still mapped, so there is only one.
span* reservations::one_of(const span* s) const {
  for (span* r = list_.front(); r != nullptr; r = r->next) {
    if (r->start == s->start && r->end() == s->end()) return r;
  }
  return around(s->start, s->end());
}

hole reservations::hole_in(const span* s) const {
  const span* const r = around(s->start, s->end());
  if (r == nullptr) return {};
  const bool at_start = s->start == r->start;
  const bool at_end = s->end() == r->end();
  hole h;
  h.start = at_start ? s->start : align_up(s->start, huge_page_size);
  h.end = at_end ? s->end() : align_down(s->end(), huge_page_size);
  if (h.end < h.start + huge_page_size && !(at_start && at_end)) return {};
  h.unmapped_start = at_start ? h.start - os::guard_bytes : h.start + os::guard_bytes;
  h.unmapped_end = at_end ? h.end + os::guard_bytes : h.end - os::guard_bytes;
  return h;
}

span* reservations::remove(span* s, bool guarded) {
  s->next = nullptr;
  span* const r = one_of(s);
  if (r == nullptr) return s;
  const std::uintptr_t start = r->start;
  const std::uintptr_t end = r->end();
  const std::uintptr_t hole_end = s->end();
  const auto set = [](span* part, std::uintptr_t from, std::uintptr_t to) {
    part->start = from;
    part->pages = static_cast<std::uint32_t>((to - from) >> page_shift);
  };
  if (!guarded || (start == s->start && end == hole_end)) {
    list_.remove(r);
    r->next = s;
    return r;
  }
  if (end == hole_end) {
    set(r, start, s->start);
    return s;
  }
  if (start == s->start) {
    set(r, hole_end, end);
    return s;
  }
  set(r, start, s->start);
  set(s, hole_end, end);
  add(s);
  return nullptr;
}

}  // namespace tarn
