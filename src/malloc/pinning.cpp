// SPDX-License-Identifier: MIT
#include "malloc/pinning.hpp"

#include "malloc/block.hpp"
#include "slots/size_class.hpp"

namespace tarn::pinning {

void visit(void (*visit)(void* context, const tarn_pinned* pinned), void* context) {
  for (unsigned c = 1; c < size_classes::all; ++c) {
    const class_depots::class_figures figures = engine::central_tier.depots().figures_of(c);
    if (figures.objects == 0) continue;
    const std::size_t size = class_info(c).size;
    tarn_pinned of_class{};
    of_class.object_size = size;
    of_class.spans = figures.spans;
    of_class.sparse_spans = figures.with_room;
    of_class.span_bytes = size_classes::is_grain(c) ? figures.objects * size : figures.spans * span_bytes(c);
    of_class.taken = figures.taken;
    of_class.pinned_bytes = of_class.span_bytes - figures.taken * size;
    visit(context, &of_class);
  }
}

std::size_t bytes_by(const void* block) {
  const span* const s = classify(block).cut(block);
  class_depots::occupancy of_span{};
  if (s == nullptr || !engine::central_tier.depots().occupancy_of(*s, block, of_span) || of_span.taken == 0)
    return 0;
  const std::size_t used = of_span.taken * of_span.object_size;
  return used < of_span.bytes ? (of_span.bytes - used) / of_span.taken : 0;
}

}  // namespace tarn::pinning
