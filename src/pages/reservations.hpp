// SPDX-License-Identifier: MIT
// reservations: where the page heap's guarded reservations lie, and which parts of them can be unmapped.
//
//      | guard |  start …       reservation       … end() | guard |
//
// A part that is unmapped leaves a guard at each of its ends behind which the reservation continues:
//
//      | guard | in use | guard |   unmapped   | guard | in use | guard |
//                       ^ hole::start                  ^ hole::end
//
// The two sides are two reservations from then on. A hole begins and ends at a huge page or at an end of its
// reservation: so all of each huge page that overlaps memory of the heap belongs to the heap (first_touch relies on it).
//
// Each reservation is described by a span structure in state no_memory, which the page map does not lead to.
// Not thread-safe: guarded by the page heap's lock.
// Invariant: the os::guard_bytes before `start` and behind `end()` of each reservation are inaccessible and belong to the
// page heap. A reservation without guards is not listed, so it is never unmapped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pages/span.hpp"

namespace tarn {

// The pages [start, end) that leave the heap, and the addresses that the system unmaps. In between is a guard.
struct hole {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  std::uintptr_t unmapped_start = 0;
  std::uintptr_t unmapped_end = 0;

  [[nodiscard]] std::size_t bytes() const { return end - start; }
};

class reservations {
 public:
  // Adds a reservation that `s` describes, in no list.
  void add(span* s);

  // Makes the reservation that ends at `end` longer. False: there is none.
  bool extend(std::uintptr_t end, std::size_t bytes);

  // The part of the free span `s` that can be unmapped; of 0 bytes if there is none: the span is too short, or lies in no
  // listed reservation.
  [[nodiscard]] hole hole_in(const span* s) const;

  // Removes the range of `s`, in no list, from its reservation. `guarded`: the guards of the hole exist; otherwise what is
  // left of the reservation is not listed any more. Returns the structures that are not used any more, linked by next.
  span* remove(span* s, bool guarded);

  [[nodiscard]] const span* front() const { return list_.front(); }

 private:
  [[nodiscard]] span* around(std::uintptr_t start, std::uintptr_t end) const;
  // The reservation with exactly the range of `s`, else one around it.
  [[nodiscard]] span* one_of(const span* s) const;

  span_list list_;
};

}  // namespace tarn
