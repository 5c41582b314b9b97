// SPDX-License-Identifier: MIT
// experimental.*: how full the span of a block is. Programs that move blocks out of sparse spans ask this of each block
// (docs/how-to/migrate.md).
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "jemalloc/program_arena.hpp"
#include "jemalloc/tree.hpp"
#include "runtime/engine.hpp"

namespace tarn::jemalloc {
namespace {

// What jemalloc writes for experimental.utilization.query: of the span, and of the class.
struct long_answer {
  std::uintptr_t next_from;  // the start of the span that gives the next object; 0: a new one
  std::size_t free;
  std::size_t regions;
  std::size_t bytes;
  std::size_t class_free;
  std::size_t class_regions;
};
// The same of the span only, for experimental.utilization.batch_query.
struct short_answer {
  std::size_t free;
  std::size_t regions;
  std::size_t bytes;
};

// A block with memory of its own is a span of one object. All zero: the pointer is none that malloc has handed out.
long_answer answer_for(const void* block) {
  central::occupancy of_span{};
  if (engine::central_tier.occupancy_of(block, of_span)) {
    return {of_span.next_from,
            of_span.objects - of_span.taken,
            of_span.objects,
            of_span.bytes,
            of_span.depot_objects - of_span.depot_taken,
            of_span.depot_objects};
  }
  long_answer out{};
  if (const span* const made = program_arena::span_of(block)) {
    os::lock_guard guard(program_arena::owner_of(made).lock());
    out.bytes = made->bytes();
    out.regions = made->size_class == 0 ? 1 : made->capacity;
    out.free = made->size_class == 0 ? 0 : made->free_objects;
    return out;
  }
  const span* const s = engine::map.span_of(address_of(block));
  if (s != nullptr && s->contains(address_of(block)) &&
      s->state.load(std::memory_order_relaxed) == span_state::large) {
    out.regions = 1;
    out.bytes = s->bytes();
  } else if (s != nullptr && heap_samples::has(s) && s->contains(address_of(block))) {
    out.bytes = engine::samples.size_of(s, block);
    out.regions = out.bytes != 0 ? 1 : 0;
  } else if (engine::guards.contains(block) && engine::guards.size_of(block) != 0) {
    out.regions = 1;
    out.bytes = engine::guards.size_of(block);
  }
  return out;
}

short_answer short_answer_for(const void* block) {
  central::fill of_span{};
  if (TARN_LIKELY(engine::central_tier.fill_of(block, of_span)))
    return {of_span.free, of_span.objects, of_span.bytes};
  const long_answer answer = answer_for(block);
  return {answer.free, answer.regions, answer.bytes};
}

int handle_query(const request& r) {
  if (!r.wants_old() || *r.old_length != sizeof(long_answer) || r.fresh == nullptr) return EINVAL;
  const void* block = nullptr;
  if (const int wrong = take(r, block)) return wrong;
  const long_answer answer = answer_for(block);
  std::memcpy(r.old, &answer, sizeof answer);
  return 0;
}

int handle_batch(const request& r) {
  const std::size_t count = r.fresh_length / sizeof(const void*);
  if (!r.wants_old() || r.fresh == nullptr || count == 0 || r.fresh_length != count * sizeof(const void*) ||
      *r.old_length != count * sizeof(short_answer)) {
    return EINVAL;
  }
  const auto* const blocks = static_cast<const void* const*>(r.fresh);
  auto* const answers = static_cast<short_answer*>(r.old);
  // The spans of blocks that are asked for together are fetched together.
  constexpr std::size_t fetched = 16;
  for (std::size_t first = 0; first < count; first += fetched) {
    const std::size_t end = std::min(count, first + fetched);
    if (count != 1) {
      for (std::size_t i = first; i < end; ++i) engine::central_tier.expect_fill_of(blocks[i]);
    }
    for (std::size_t i = first; i < end; ++i) answers[i] = short_answer_for(blocks[i]);
  }
  return 0;
}

constexpr node utilization_nodes[] = {leaf("query", handle_query), leaf("batch_query", handle_batch)};
constexpr node_list utilization_names = list_of(utilization_nodes);

constexpr node nodes[] = {inner("utilization", utilization_names)};

}  // namespace

constexpr node_list experimental_names = list_of(nodes);

}  // namespace tarn::jemalloc
