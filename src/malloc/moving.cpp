// SPDX-License-Identifier: MIT
#include "malloc/moving.hpp"

#include <cstring>

#include "malloc/allocate.hpp"

namespace tarn::moving {

bool would_help(const void* block, double ratio) {
  // Most blocks that are asked for lie in full spans, once the others have moved: no lock for these.
  central::fill filled{};
  if (block != nullptr && engine::central_tier.fill_of(block, filled) && filled.free == 0) return false;
  central::occupancy of_span{};
  if (block == nullptr || !engine::central_tier.occupancy_of(block, of_span)) return false;
  if (of_span.taken == of_span.objects || of_span.is_next || of_span.partial_spans < 2) return false;
  // taken / objects <= ratio * partial_taken / partial_objects
  return static_cast<double>(of_span.taken) * static_cast<double>(of_span.partial_objects) <=
         ratio * static_cast<double>(of_span.partial_taken) * static_cast<double>(of_span.objects);
}

void* move(void* block) {
  const std::size_t bytes = usable_size(block);
  if (bytes > largest_class_size - kept_bytes) return block;
  void* const to = allocate_uncached(bytes);
  if (to == nullptr) return nullptr;
  std::memcpy(to, block, bytes);
  deallocate_uncached(block);
  return to;
}

}  // namespace tarn::moving
