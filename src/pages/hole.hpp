// SPDX-License-Identifier: MIT
// hole: which part of a free span in a reservation can be unmapped.
//
//      | guard |  start …       reservation       … end() | guard |
//
// A part that is unmapped leaves a guard at each of its ends behind which the reservation continues:
//
//      | guard | in use | guard |   unmapped   | guard | in use | guard |
//                       ^ hole::start                  ^ hole::end
//
// The two sides are two reservations from then on. A hole begins and ends at a huge page or at a border of its
// reservation: so, inside a reservation, all of each huge page that overlaps memory of the heap belongs to the heap
// (first_touch relies on it). A reservation for which the system refused the guards has borders without guards.
//
// Each span knows at which of its ends its reservation ends (span::borders), so no list of reservations is needed, and
// the answer takes the same time however many there are.
// Thread safety: pure functions; the caller holds the page heap's lock, which guards span::borders.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/guarded_memory.hpp"
#include "pages/span.hpp"

namespace tarn {

// The pages [start, end) that leave the heap, and the addresses that the system unmaps. Between the two lies a guard,
// that of the reservation or a new one, or nothing at a border without a guard.
struct hole {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  std::uintptr_t unmapped_start = 0;
  std::uintptr_t unmapped_end = 0;

  [[nodiscard]] std::size_t bytes() const { return end - start; }
};

// The part of the free span `s`, in a reservation, that can be unmapped; of 0 bytes if the span is too short. Requires:
// where the span has no border, the heap's memory continues.
inline hole hole_in(const span* s) {
  const bool at_start = s->has_border(border_before);
  const bool at_end = s->has_border(border_behind);
  hole h;
  h.start = at_start ? s->start : align_up(s->start, huge_page_size);
  h.end = at_end ? s->end() : align_down(s->end(), huge_page_size);
  if (h.end < h.start + huge_page_size && !(at_start && at_end)) return {};
  h.unmapped_start = h.start;
  h.unmapped_end = h.end;
  if (!at_start) h.unmapped_start += os::guard_bytes;
  if (!at_end) h.unmapped_end -= os::guard_bytes;
  if (s->has_border(guard_before)) h.unmapped_start -= os::guard_bytes;
  if (s->has_border(guard_behind)) h.unmapped_end += os::guard_bytes;
  return h;
}

}  // namespace tarn
