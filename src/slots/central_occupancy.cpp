// SPDX-License-Identifier: MIT
// The part of central that tells how full spans are: for callers that move objects out of sparse spans, and for
// statistics.
#include "slots/central.hpp"

namespace tarn {

bool central::occupancy_of(const span& s, const void* object, occupancy& out) {
  // Between the two looks at the span it may be divided, move to another depot, or be destroyed.
  constexpr int most_tries = 4;
  for (int tries = 0; tries < most_tries; ++tries) {
    if (s.state.load(std::memory_order_relaxed) != span_state::cut) return false;
    const unsigned size_class = TARN_PLAIN_LOAD(s.size_class);
    // acquire: partner of the release where a span gets another depot.
    const unsigned home = s.home.load(std::memory_order_acquire);
    if (size_class == 0 || home >= most_homes) return false;
    slot_depot& d = depot(size_class, home);
    os::lock_guard guard(d.lock, d);
    if (s.home.load(std::memory_order_acquire) != d.home || s.size_class != size_class ||
        !s.contains(address_of(object))) {
      continue;
    }
    out.objects = s.capacity;
    out.object_size = class_info(size_class).size;
    out.taken = out.objects - s.free_objects;
    out.bytes = s.bytes();
    out.partial_objects = d.spans.partial_slots();
    out.partial_spans = out.partial_objects / out.objects;
    out.partial_taken = out.partial_objects - d.spans.free_slots();
    out.is_next = best_span(d) == &s;
    return true;
  }
  return false;
}

central::class_figures central::figures_of(unsigned size_class) {
  class_figures out{};
  for_each_depot(size_class, [&](slot_depot& d) {
    os::lock_guard guard(d.lock, d);
    out.objects += d.spans.slots();
    out.taken += d.spans.taken();
    if (size_classes::is_grain(size_class)) return;
    const std::size_t per_span = class_info(size_class).objects;
    out.spans += d.spans.slots() / per_span;
    out.with_room += d.spans.partial_slots() / per_span;
  });
  return out;
}

}  // namespace tarn
