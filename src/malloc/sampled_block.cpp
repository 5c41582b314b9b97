// SPDX-License-Identifier: MIT
#include "malloc/sampled_block.hpp"

#include "engine/allocation_counts.hpp"
#include "fronts/scopes/scope_bin.hpp"
#include "samples/guarded/fault_handler.hpp"

namespace tarn::sampled_block {
namespace {

void* allocate_guarded(unsigned size_class, std::size_t size, const scope_core* scope = nullptr) {
  void* const block = engine::guards.allocate(size, size_class, scope);
  if (block != nullptr) fault_handler::install(engine::guards);
  return block;
}

// A block that the heap profile follows.
void* allocate_profiled(unsigned size_class, std::size_t size, sample_owner* owner = nullptr) {
  return engine::samples.allocate(engine::profile_samples, size, class_info(size_class).size, owner);
}

// The same for one of the scope.
void* allocate_profiled_in_scope(scope_bin& bin, unsigned size_class, std::size_t size) {
  scope_core& scope = *bin.memory;
  const std::size_t taken = class_info(size_class).size;
  if (taken > sample_cells::largest_block) return scope.allocate_followed(size, taken, &bin);
  void* const block = allocate_profiled(size_class, size, &scope.sampled);
  if (block != nullptr) engine::uncached_traffic.allocated += taken;
  return block;
}

// `counts`, here and below: the thread counts its allocations, and none is sampled.
void* take_from(thread_cache& cache, unsigned size_class, std::size_t size, bool counts) {
  const sample_kind kind =
      cache.pick_sample(size_class, engine::guard_windows, engine::profile_samples, counts);
  if (kind == sample_kind::none) return nullptr;
  void* const block =
      kind == sample_kind::guarded ? allocate_guarded(size_class, size) : allocate_profiled(size_class, size);
  if (block == nullptr) cache.forget_choice(size_class);
  return block;
}

void* take_at_processor(unsigned size_class, std::size_t size, bool counts) {
  sample_countdown& samples = engine::processor_user.samples;
  --samples.until_sample;
  engine::uncached_traffic.allocated += class_info(size_class).size;
  if (TARN_UNLIKELY(samples.may_be_due())) {
    if (counts) {
      samples = sample_countdown::counted();
    } else if (samples.is_due(engine::guard_windows)) {
      if (void* const block = allocate_guarded(size_class, size)) return block;
    }
  }
  return take_by_bytes(size_class, size);
}

void* take_in_scope(scope_bin& bin, unsigned size_class, std::size_t size, bool counts) {
  if (counts) {
    bin.samples = {};
    return nullptr;
  }
  if (--bin.samples.until_sample < 0 && bin.samples.is_due(engine::guard_windows)) {
    if (void* const block = allocate_guarded(size_class, size, bin.memory)) {
      engine::uncached_traffic.allocated += class_info(size_class).size;
      return block;
    }
  }
  if (TARN_LIKELY(!bin.is_profiled(size_class, engine::profile_samples))) return nullptr;
  void* const block = allocate_profiled_in_scope(bin, size_class, size);
  if (block == nullptr) bin.forget_sample(size_class);
  return block;
}

}  // namespace

void* take_by_bytes(unsigned size_class, std::size_t size) {
  if (TARN_LIKELY(!engine::profile_countdown.is_due(engine::profile_samples, class_info(size_class).size)))
    return nullptr;
  return allocate_profiled(size_class, size);
}

void* take(thread_mode mode, unsigned size_class, std::size_t size) {
  if (TARN_LIKELY(mode == thread_mode::cached && !engine::local_cache->may_pick_sample(size_class)))
    return nullptr;
  const bool counts = allocation_counts::innermost != nullptr;
  if (TARN_UNLIKELY(counts)) allocation_counts::add(size);
  switch (mode) {
    case thread_mode::cached: return take_from(*engine::local_cache, size_class, size, counts);
    case thread_mode::processor: return take_at_processor(size_class, size, counts);
    case thread_mode::in_scope: return take_in_scope(*current_scope_bin, size_class, size, counts);
    case thread_mode::uncached: break;
  }
  return counts ? nullptr : take_by_bytes(size_class, size);
}

}  // namespace tarn::sampled_block
