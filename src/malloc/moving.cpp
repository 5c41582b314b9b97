// SPDX-License-Identifier: MIT
#include "malloc/moving.hpp"

#include <cstring>

#include "malloc/allocate.hpp"
#include "malloc/block.hpp"

namespace tarn::moving {

bool would_help(const void* block, double ratio) {
  const span* const s = classify(block).cut(block);
  // Most blocks that are asked for lie in full spans, once the others have moved: no lock for these.
  if (s == nullptr || class_depots::is_full(*s)) return false;
  class_depots::occupancy of_span{};
  if (!engine::central_tier.depots().occupancy_of(*s, block, of_span)) return false;
  if (of_span.taken == of_span.objects || of_span.is_next || of_span.partial_spans < 2) return false;
  // taken / objects <= ratio * partial_taken / partial_objects
  return static_cast<double>(of_span.taken) * static_cast<double>(of_span.partial_objects) <=
         ratio * static_cast<double>(of_span.partial_taken) * static_cast<double>(of_span.objects);
}

// What the block may have been promised: a power of two that divides its address and its size (aligned_class_of()).
static std::size_t promised_alignment(const void* block, std::size_t bytes) {
  const std::uintptr_t bits = address_of(block) | (bytes + kept_bytes) | page_size;
  return bits & (0 - bits);
}

void* move(void* block) {
  const std::size_t bytes = usable_size(block);
  if (!actions_of(classify(block).kind).moves) return block;
  void* const to = allocate_uncached(promised_alignment(block, bytes), bytes);
  if (to == nullptr) return nullptr;
  std::memcpy(to, block, bytes);
  free_mark::clear_copied(to);
  deallocate_uncached(block);
  return to;
}

}  // namespace tarn::moving
