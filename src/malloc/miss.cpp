// SPDX-License-Identifier: MIT
// The slow paths of malloc(): a request that the calling thread's bin does not serve at once, one with an alignment, and one
// past the caches.
#include "malloc/miss.hpp"

#include <cerrno>

#include "engine/allocation_counts.hpp"
#include "engine/slow_calls.hpp"
#include "fronts/scopes/scope_bin.hpp"
#include "malloc/allocate.hpp"
#include "malloc/hardened_zero.hpp"
#include "malloc/large_block.hpp"
#include "malloc/sampled_block.hpp"

namespace tarn {
namespace {

constexpr std::size_t largest_in_class = largest_class_size - kept_bytes;

// An object that leaves a magazine or span for the program; null stays null.
void* handed_out(void* object, unsigned size_class) {
  if (hardened_build && object != nullptr) hardened_block::hand_out_any(object, class_info(size_class).size);
  return object;
}

// Null: no memory, or the thread has got a cache of its own meanwhile.
void* take_from_processor(unsigned size_class) {
  if (void* const object = engine::processors.pop(size_class); TARN_LIKELY(object != nullptr)) return object;
  // Fewer threads may be left.
  engine::attach_thread();
  return engine::processor_user.in_use ? engine::processors.allocate_slow(size_class) : nullptr;
}

// Null: no memory, or over the budget.
void* take_in_scope(unsigned size_class) {
  scope_bin& bin = *current_scope_bin;
  void* const object = bin.allocate_slow(size_class);
  if (TARN_UNLIKELY(allocation_counts::innermost != nullptr)) bin.count_every_pop();
  return object;
}

void* take_object(thread_mode mode, unsigned size_class, std::size_t size) {
  void* object = nullptr;
  switch (mode) {
    case thread_mode::cached: object = engine::local_cache->allocate_slow(size_class); break;
    case thread_mode::processor: object = take_from_processor(size_class); break;
    // No memory is gathered for a scope over its budget.
    case thread_mode::in_scope: return take_in_scope(size_class);
    case thread_mode::uncached: break;
  }
  if (TARN_LIKELY(object != nullptr)) return object;
  return take_or_reclaim(size, [=] { return engine::central_tier.take_one(size_class); });
}

using large_block::purpose;

TARN_NOINLINE void* take_large(std::size_t size, std::size_t alignment, purpose what) {
  if (TARN_UNLIKELY(engine::local_cache == &engine::no_cache)) engine::attach_thread();
  if (TARN_UNLIKELY(allocation_counts::innermost != nullptr)) allocation_counts::add(size);
  if (TARN_UNLIKELY(engine::is_in_scope())) {
    scope_bin* const bin = current_scope_bin;
    void* const block = bin->memory->allocate_large(size, alignment, what == purpose::zeroed, bin);
    return block != nullptr ? block : out_of_memory();
  }
  void* const block = take_or_reclaim(size, [=] { return large_block::allocate(size, alignment, what); });
  if (TARN_UNLIKELY(engine::noted_traffic != nullptr)) engine::note_traffic();
  return block != nullptr ? block : out_of_memory();
}

void* allocate_large(std::size_t size, std::size_t alignment, purpose what) {
  return slow_calls::counted(slow_calls::kind::large_allocation,
                             [=] { return take_large(size, alignment, what); });
}

// Requires: the hardened build. A block of 0 bytes; null: an ordinary one takes its place.
void* allocate_nothing() {
  engine::attach_thread();
  // What is allocated in a scope goes back at its end.
  if (TARN_UNLIKELY(engine::is_in_scope())) return nullptr;
  void* const block = hardened_zero::allocate();
  if (block != nullptr && allocation_counts::innermost != nullptr) allocation_counts::add(0);
  return block;
}

// Requires: the class is above largest_fine. Null: a miss. (Nobody writes no_cache, which threads share.)
TARN_ALWAYS_INLINE void* pop_coarse(unsigned size_class) {
  allocation_bins* const bins = engine::allocating;
  return TARN_LIKELY(bins != &engine::no_cache) ? bins->pop_guarded(engine::map, size_class) : nullptr;
}

// An object of the class, or the sample that takes its place. Null: no memory.
void* allocate_object(unsigned size_class, std::size_t size) {
  void* object = hardened_build && size > largest_fine ? pop_coarse(size_class) : nullptr;
  if (object == nullptr) {
    const thread_mode mode = mode_to_allocate();
    if (void* const sample = sampled_block::take(mode, size_class, size)) return sample;
    object = take_object(mode, size_class, size);
  }
  return handed_out(object, size_class);
}

// Out of line, as the hits of allocate_slow() would otherwise save and restore registers. Requires: size <=
// largest_in_class.
TARN_NOINLINE void* take_missed(std::size_t size) {
  void* const block = allocate_object(class_of_size(object_size(size)), size);
  if (TARN_UNLIKELY(engine::noted_traffic != nullptr)) engine::note_traffic();
  return block != nullptr ? block : out_of_memory();
}

void* allocate_missed(std::size_t size) {
  return slow_calls::counted(slow_calls::kind::allocation, [=] { return take_missed(size); });
}

// `block` if it has the alignment. Else it is a run of grains, and an object of a span of the class itself takes its place.
TARN_ALWAYS_INLINE void* aligned_or_replaced(void* block, std::size_t alignment, unsigned size_class) {
  if (TARN_LIKELY(keeps_alignment(block, alignment))) return block;
  deallocate(block);
  const std::size_t size = class_info(size_class).size;
  void* const aligned =
      take_or_reclaim(size, [=] { return engine::central_tier.take_one(size_class, 0, true); });
  if (aligned == nullptr) return out_of_memory();
  engine::uncached_traffic.allocated += size;
  return aligned;
}

// Out of line, as allocate_missed(). `popped`: of the class, without the alignment; null: none.
TARN_NOINLINE void* allocate_aligned_missed(void* popped, std::size_t alignment, unsigned size_class) {
  void* const block = popped != nullptr ? popped : allocate(class_info(size_class).size - kept_bytes);
  return aligned_or_replaced(block, alignment, size_class);
}

// The home of the calling thread's depots.
unsigned home_of_thread() {
  const thread_cache* const cache = engine::local_cache;
  return cache == &engine::no_cache ? 0 : cache->home;
}

}  // namespace

TARN_COLD void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

TARN_NOINLINE void* allocate_slow(std::size_t size) {
  // Either the fast path has missed, or the size is one that it does not serve.
  if (hardened_build && size == 0) {
    if (void* const block = allocate_nothing()) return block;
  }
  if (!hardened_build && size > largest_fine && size <= largest_in_class) {
    if (void* const object = pop_coarse(class_of_size(size)); TARN_LIKELY(object != nullptr)) return object;
  }
  if (size > largest_in_class) return allocate_large(size, 1, purpose::any);
  return allocate_missed(size);
}

TARN_NOINLINE void* allocate_grown(std::size_t size) {
  return size > largest_in_class ? allocate_large(size, 1, purpose::grown) : allocate(size);
}

TARN_NOINLINE void* allocate_zeroed_slow(std::size_t size, std::size_t alignment) {
  return allocate_large(size, alignment, purpose::zeroed);
}

TARN_NOINLINE void* allocate_aligned(std::size_t alignment, std::size_t size) {
  if constexpr (!hardened_build) {
    // In the order of pop_aligned(), for the classes above it.
    const std::size_t rounded = align_up(size > alignment ? size : alignment, alignment);
    if (alignment <= page_size && rounded > largest_fine && rounded <= largest_in_class) {
      const unsigned size_class = class_of_size(rounded);
      void* const object = pop_coarse(size_class);
      if (TARN_LIKELY(object != nullptr && keeps_alignment(object, alignment))) return object;
      return allocate_aligned_missed(object, alignment, size_class);
    }
  }
  if (alignment <= 16) return allocate(alignment == 16 && size < 16 ? 16 : size);
  const unsigned size_class =
      size <= largest_in_class ? aligned_class_of(object_size(size), alignment) : size_classes::count;
  if (size_class == size_classes::count) return allocate_large(size, alignment, purpose::any);
  return allocate_aligned_missed(nullptr, alignment, size_class);
}

TARN_COLD void* allocate_uncached(std::size_t alignment, std::size_t size) {
  if (has_no_class(size, alignment)) return allocate_large(size, alignment, purpose::any);
  engine::attach_thread();
  const unsigned size_class = aligned_class_of(object_size(size), alignment);
  engine::uncached_traffic.allocated += class_info(size_class).size;
  if (void* const sample = sampled_block::take_by_bytes(size_class, size))
    return aligned_or_replaced(sample, alignment, size_class);
  void* const object =
      take_or_reclaim(size, [=] { return engine::central_tier.take_one(size_class, home_of_thread()); });
  if (object == nullptr) {
    engine::uncached_traffic.allocated -= class_info(size_class).size;
    return out_of_memory();
  }
  return aligned_or_replaced(handed_out(object, size_class), alignment, size_class);
}

}  // namespace tarn
