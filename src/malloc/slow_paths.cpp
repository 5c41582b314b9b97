// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "guarded/fault_handler.hpp"
#include "malloc/allocate.hpp"
#include "malloc/hardened_block.hpp"
#include "malloc/hardened_large.hpp"
#include "malloc/hardened_zero.hpp"
#include "malloc/large_block.hpp"
#include "os/report.hpp"
#include "runtime/allocation_counts.hpp"
#include "scope/scope_bin.hpp"

namespace tarn {
namespace {

constexpr const char* no_block_to_size = "size asked of a pointer that is not a block";
constexpr const char* no_block_to_resize = "realloc of a pointer that is not a block";
// realloc asks for no more than the new size from this size on, where a quarter more would only be refused.
constexpr std::size_t grows_ahead_below = std::size_t{1} << 40;
constexpr std::size_t largest_in_class = largest_class_size - kept_bytes;

// engine::take_or_reclaim(), but no memory is reclaimed for a `size` that the system would refuse in any case: otherwise an
// attacker who controls a size could empty caches and quarantines.
template <class Take>
void* take_or_gather(std::size_t size, Take take) {
  void* const block = take();
  if (TARN_LIKELY(block != nullptr) || !engine::heap.may_be_met(size)) return block;
  return engine::take_after_reclaim(take, [] {
    if constexpr (hardened_build) hardened_block::release_quarantine();
  });
}

void* allocate_guarded(unsigned size_class, std::size_t size, const scope_core* scope = nullptr) {
  void* const block = engine::guards.allocate(size, size_class, scope);
  if (block != nullptr) fault_handler::install(engine::guards);
  return block;
}

// A block that the heap profile follows. Null: no memory.
void* allocate_profiled(unsigned size_class, std::size_t size, sample_owner* owner = nullptr) {
  return engine::samples.allocate(engine::profile_samples, size, class_info(size_class).size, owner);
}

// The same for an allocation that no cache counts; null also if it is not to be followed.
void* allocate_profiled_by_bytes(unsigned size_class, std::size_t size) {
  if (TARN_LIKELY(!engine::profile_countdown.is_due(engine::profile_samples, class_info(size_class).size)))
    return nullptr;
  return allocate_profiled(size_class, size);
}

// Counts the allocation if the thread counts its allocations. False: it does not.
bool counted(std::size_t size) {
  if (TARN_LIKELY(allocation_counts::innermost == nullptr)) return false;
  allocation_counts::add(size);
  return true;
}

// For a thread that uses the processors' caches. Null: no memory, or the thread has got a cache of its own meanwhile.
void* allocate_from_processor(unsigned size_class, std::size_t size) {
  --engine::processor_user.samples.until_sample;
  engine::uncached_traffic.allocated += class_info(size_class).size;
  if (TARN_UNLIKELY(engine::processor_user.samples.may_be_due())) {
    if (counted(size)) {
      engine::processor_user.samples = sample_countdown::counted();
    } else if (engine::processor_user.samples.is_due(engine::guard_windows)) {
      if (void* const block = allocate_guarded(size_class, size)) return block;
    }
  }
  if (void* const block = allocate_profiled_by_bytes(size_class, size)) return block;
  if (void* const object = engine::processors.pop(size_class); TARN_LIKELY(object != nullptr)) return object;
  // Fewer threads may be left.
  engine::attach_thread();
  return engine::processor_user.in_use ? engine::processors.allocate_slow(size_class) : nullptr;
}

// A block of the scope that the heap profile follows. Null: no memory, or it is not to be followed.
void* allocate_profiled_in_scope(scope_core& scope, scope_bin& bin, unsigned size_class, std::size_t size) {
  const std::size_t taken = class_info(size_class).size;
  if (taken > sample_cells::largest_block) return scope.allocate_followed(size, taken, &bin);
  void* const block = allocate_profiled(size_class, size, &scope.sampled);
  if (block != nullptr) engine::uncached_traffic.allocated += taken;
  return block;
}

// A block that is guarded, or that the heap profile follows. Null: neither is due, or it is refused.
void* allocate_sample_in_scope(scope_bin& bin, unsigned size_class, std::size_t size) {
  if (--bin.samples.until_sample < 0 && bin.samples.is_due(engine::guard_windows)) {
    if (void* const block = allocate_guarded(size_class, size, bin.memory)) {
      engine::uncached_traffic.allocated += class_info(size_class).size;
      return block;
    }
  }
  if (TARN_LIKELY(!bin.is_profiled(size_class, engine::profile_samples))) return nullptr;
  void* const block = allocate_profiled_in_scope(*bin.memory, bin, size_class, size);
  if (block == nullptr) bin.forget_sample(size_class);
  return block;
}

// For a thread that is in a scope. No memory is gathered for a scope over its budget.
TARN_NOINLINE void* allocate_in_scope(unsigned size_class, std::size_t size) {
  scope_bin& bin = *current_scope_bin;
  if (counted(size)) {
    bin.samples = {};
  } else if (void* const block = allocate_sample_in_scope(bin, size_class, size)) {
    return block;
  }
  void* const object = bin.allocate_slow(size_class);
  if (TARN_UNLIKELY(allocation_counts::innermost != nullptr)) bin.count_every_pop();
  return object;
}

void* allocate_object(unsigned size_class, std::size_t size) {
  if (TARN_UNLIKELY(engine::is_in_scope())) return allocate_in_scope(size_class, size);
  thread_cache* cache = engine::local_cache;
  if (TARN_UNLIKELY(cache == &engine::no_cache)) {
    if (!engine::processor_user.in_use) cache = engine::attach_thread();
    if (engine::processor_user.in_use) {
      if (void* const object = allocate_from_processor(size_class, size)) return object;
      cache = nullptr;
    } else if (cache == nullptr && !counted(size)) {
      if (void* const block = allocate_profiled_by_bytes(size_class, size)) return block;
    }
  }
  if (cache != nullptr) {
    const sample_kind kind =
        cache->choose(size_class, engine::guard_windows, engine::profile_samples, counted(size));
    if (TARN_UNLIKELY(kind != sample_kind::none)) {
      void* const block = kind == sample_kind::guarded ? allocate_guarded(size_class, size)
                                                       : allocate_profiled(size_class, size);
      if (block != nullptr) return block;
      cache->forget_choice(size_class);
    }
    if (void* object = cache->allocate_slow(size_class)) return object;
  }
  // For threads that are ending, and when there is no memory for a cache.
  return take_or_gather(size, [=] { return engine::central_tier.take_one(size_class); });
}

TARN_NOINLINE void* allocate_large(std::size_t size, std::size_t alignment, bool zeroed) {
  engine::attach_thread();
  if (TARN_UNLIKELY(allocation_counts::innermost != nullptr)) allocation_counts::add(size);
  if (TARN_UNLIKELY(engine::is_in_scope())) {
    scope_bin* const bin = current_scope_bin;
    void* const block = bin->memory->allocate_large(size, alignment, zeroed, bin);
    return block != nullptr ? block : out_of_memory();
  }
  void* const block = take_or_gather(size, [=] { return large_block::allocate(size, alignment, zeroed); });
  if (TARN_UNLIKELY(engine::noted_traffic != nullptr)) engine::note_traffic();
  return block != nullptr ? block : out_of_memory();
}

// For a thread that uses the processors' caches. False: the pointer is not an object, or is free already.
bool give_to_processor(unsigned size_class, page_map::entry page, void* object) {
  if (!page.begins_object(address_of(object), class_info(size_class).reciprocal) ||
      free_mark::is_set(object)) {
    return false;
  }
  free_mark::set(object);
  engine::uncached_traffic.freed += class_info(size_class).size;
  if (TARN_UNLIKELY(size_classes::is_grain(size_class) || !engine::processors.push(size_class, object)))
    engine::processors.free_slow(size_class, object);
  return true;
}

// The fault that freeing `block` shows, as a message, or null. Requires: `page` is the page map's entry for it, and has a
// size class. By the class in the entry, not the span's: another thread may be dividing the span into grains at this
// time, which leave no bytes before the first object.
const char* fault_of(page_map::entry page, const void* block) {
  const auto& info = class_info(static_cast<unsigned>(page.size_class()));
  const std::size_t bytes_of_objects = std::size_t{info.objects} * info.size;
  const bool fills_span = bytes_of_objects == std::size_t{info.span_pages} << page_shift;
  if (!fills_span && address_of(block) < page.owner()->end() - bytes_of_objects) {
    return "invalid free of a pointer that is not a block";
  }
  if (!page.begins_object(address_of(block), info.reciprocal)) {
    return "invalid free of a pointer into a block";
  }
  if constexpr (hardened_build) return hardened_block::fault_of(page, block);
  return free_mark::is_set(block) ? "double free" : nullptr;
}

// The bytes of a block that may be used. Requires: the block is live, of this class.
std::size_t usable_bytes(unsigned size_class, const void* block) {
  if (TARN_UNLIKELY(size_classes::is_grain(size_class))) {
    return engine::central_tier.bytes_of_grains(size_class, address_of(block)) - kept_bytes;
  }
  return class_info(size_class).size - kept_bytes;
}

// Whether the pointer would be an address of tarn without its top byte. aarch64 ignores that byte, so programs keep
// tags there; free() requires untagged pointers.
bool has_tag(const void* block) {
  constexpr std::uintptr_t tag = std::uintptr_t{0xff} << 56;
  const span* s = engine::map.span_of(address_of(block) & ~tag);
  return (address_of(block) & tag) != 0 && s != nullptr && s->contains(address_of(block) & ~tag);
}

[[noreturn]] void report_no_block(const void* block) {
  const span* s = engine::map.span_of(address_of(block));
  if (s != nullptr && s->contains(address_of(block))) {
    const span_state state = s->state.load(std::memory_order_relaxed);
    if (state == span_state::large) os::fatal("invalid free of a pointer into a block", block);
    if (state == span_state::pooled) os::fatal("invalid free of an object of a typed pool", block);
    if (state == span_state::sampled)
      os::fatal("double free, or invalid free of a pointer into a block", block);
    if (state == span_state::arena) os::fatal("invalid free of a pointer that is not a block", block);
    if (state == span_state::buffer) os::fatal("invalid free of a buffer of a buffer pool", block);
    os::fatal("double free, or a pointer into memory that is free", block);
  }
  if (has_tag(block)) os::fatal("invalid free of a pointer with a tag in its top byte", block);
  os::fatal("invalid free of a pointer that tarn did not allocate", block);
}

// The span, if the address lies in one with sampled blocks, or null.
span* sampled_span_of(const void* address) {
  span* const s = engine::map.span_of(address_of(address));
  return s != nullptr && heap_samples::has(s) && s->contains(address_of(address)) ? s : nullptr;
}

// False: no sampled block of a class begins there.
bool deallocate_sampled(void* block) {
  span* const s = sampled_span_of(block);
  if (s == nullptr) return false;
  const std::size_t bytes = engine::samples.deallocate(s, block);
  engine::uncached_traffic.freed += bytes;
  return bytes != 0;
}

// The bytes of a sampled block of a class; 0: none begins there.
std::size_t bytes_of_sampled(const void* block) {
  const span* const s = sampled_span_of(block);
  const std::size_t bytes = s != nullptr ? engine::samples.size_of(s, block) : 0;
  return bytes > kept_bytes ? bytes - kept_bytes : 0;
}

// The home of the calling thread's depots.
unsigned home_of_thread() {
  const thread_cache* const cache = engine::local_cache;
  return cache == &engine::no_cache ? 0 : cache->home;
}

// Puts an object into its span, past the thread's cache. Requires: it has no fault.
void put_into_span(unsigned size_class, void* object) {
  free_mark::set(object);
  engine::uncached_traffic.freed += class_info(size_class).size;
  engine::central_tier.flush(size_class, &object, 1);
  engine::central_tier.settle(size_class);
}

// Requires: the hardened build. A block of 0 bytes; null: an ordinary one takes its place.
void* allocate_nothing() {
  engine::attach_thread();
  // What is allocated in a scope goes back at its end.
  if (TARN_UNLIKELY(engine::is_in_scope())) return nullptr;
  void* const block = hardened_zero::allocate();
  if (block != nullptr) counted(0);
  return block;
}

// free() of a block that has no size class in the page map.
TARN_NOINLINE void deallocate_apart(void* block) {
  if (TARN_UNLIKELY(engine::noted_traffic != nullptr)) engine::note_traffic();
  if (hardened_build && hardened_zero::deallocate(block)) return;
  if (span* const s = scope_core::span_of(block)) {
    scope_bin* const bin = current_scope_bin;
    // The thread's bin of the scope saves the lock.
    // The owner is read first (scope_core::owner_of()).
    if (bin != nullptr && s->size_class != 0 && bin->memory == &scope_core::owner_of(s) &&
        TARN_PLAIN_LOAD(s->list) == scope_core::cut && scope_core::is_object(s, block) &&
        !free_mark::is_set(block)) {
      if constexpr (hardened_build) hardened_block::take_back_scoped(s, block);
      if (!bin->push(s->size_class, block)) scope_core::deallocate(s, block);
      return;
    }
    // Past a bin, another thread may be ending the scope and making the block inaccessible: only the lock keeps it off.
    if constexpr (hardened_build) return scope_core::deallocate(s, block, hardened_block::take_back_scoped);
    return scope_core::deallocate(s, block);
  }
  if (TARN_UNLIKELY(engine::guards.contains(block))) {
    engine::uncached_traffic.freed += class_info(engine::guards.deallocate(block)).size;
    return;
  }
  if (deallocate_sampled(block)) return;
  span* const s = large_block::find(block);
  if (s != nullptr && large_block::deallocate(s)) return;
  const central::unlisted found = engine::central_tier.look_up_unlisted(block);
  if (found.has_changed) return deallocate(block);
  if (found.fault != nullptr) os::fatal(found.fault, block);
  if (found.size_class == 0) report_no_block(block);
  put_into_span(found.size_class, block);
}

// The new block of a realloc. In the hardened build, whose large blocks do not grow in place, a quarter more: the
// pages take only address space until they are written to.
void* allocate_to_grow(std::size_t size) {
  if (hardened_build && size > largest_class_size && size < grows_ahead_below) {
    const int error = errno;
    if (void* const block = allocate(size + size / 4)) return block;
    errno = error;
  }
  return allocate(size);
}

// The smaller of both sizes.
std::size_t copied_size(std::size_t a, std::size_t b) { return a < b ? a : b; }

}  // namespace

TARN_COLD void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

// Whether the block is an object of a size class, in or out of a scope; else it is a guarded or a large one.
[[maybe_unused]] static bool is_object_of_class(const void* block) {
  if (engine::map.class_of(address_of(block)) != 0) return true;
  const span* const scoped = scope_core::span_of(block);
  return scoped != nullptr && scoped->size_class != 0;
}

// Requires: size > largest_fine, size <= largest_in_class. Null: a miss. (Nobody writes no_cache, which threads share.)
TARN_ALWAYS_INLINE static void* pop_coarse(std::size_t size) {
  allocation_bins* const bins = engine::allocating;
  return TARN_LIKELY(bins != &engine::no_cache) ? bins->pop_guarded(class_of_size(object_size(size)))
                                                : nullptr;
}

// Apart from allocate_slow(), whose hits would otherwise save and restore registers. Requires: size <=
// largest_in_class.
TARN_NOINLINE static void* allocate_missed(std::size_t size) {
  const unsigned size_class = class_of_size(object_size(size));
  void* block = nullptr;
  if (hardened_build && size > largest_fine) block = pop_coarse(size);
  if (block == nullptr) block = allocate_object(size_class, size);
  // A sampled allocation is a guarded block, which belongs to no size class.
  if constexpr (hardened_build) {
    if (block != nullptr && is_object_of_class(block)) {
      hardened_block::hand_out_any(block, class_info(size_class).size);
    }
  }
  if (TARN_UNLIKELY(engine::noted_traffic != nullptr)) engine::note_traffic();
  return block != nullptr ? block : out_of_memory();
}

TARN_NOINLINE void* allocate_slow(std::size_t size) {
  // Either the fast path has missed, or the size is one that it does not serve.
  if (hardened_build && size == 0) {
    if (void* const block = allocate_nothing()) return block;
  }
  if (!hardened_build && size > largest_fine && size <= largest_in_class) {
    if (void* const object = pop_coarse(size); TARN_LIKELY(object != nullptr)) return object;
  }
  if (size > largest_in_class) return allocate_large(size, 1, false);
  return allocate_missed(size);
}

TARN_NOINLINE void* allocate_zeroed_slow(std::size_t size, std::size_t alignment) {
  return allocate_large(size, alignment, true);
}

// `block` if it has the alignment. Else it is a run of grains, and an object of a span of the class itself takes its place.
TARN_ALWAYS_INLINE static void* aligned_or_replaced(void* block, std::size_t alignment, unsigned size_class) {
  if (TARN_LIKELY(keeps_alignment(block, alignment))) return block;
  deallocate(block);
  const std::size_t size = class_info(size_class).size;
  void* const aligned =
      take_or_gather(size, [=] { return engine::central_tier.take_from_own_spans(size_class); });
  if (aligned == nullptr) return out_of_memory();
  engine::uncached_traffic.allocated += size;
  return aligned;
}

TARN_NOINLINE void* allocate_aligned(std::size_t alignment, std::size_t size) {
  if (alignment <= 16) return allocate(alignment == 16 && size < 16 ? 16 : size);
  if (size <= largest_in_class) {
    const unsigned size_class = aligned_class_of(object_size(size), alignment);
    if (size_class < size_classes::count) {
      void* const block = allocate(class_info(size_class).size - kept_bytes);
      return aligned_or_replaced(block, alignment, size_class);
    }
  }
  return allocate_large(size, alignment, false);
}

// For a thread without a cache of its own.
TARN_NOINLINE static thread_cache* cache_or_processor(unsigned size_class, page_map::entry page, void* object,
                                                      bool& taken) {
  if (!engine::processor_user.in_use) {
    thread_cache* const cache = engine::attach_thread();
    if (!engine::processor_user.in_use) return cache;
  }
  taken = give_to_processor(size_class, page, object);
  return nullptr;
}

TARN_NOINLINE void deallocate_slow(void* block) {
  if (block == nullptr) return;
  const page_map::entry page = engine::map.find(address_of(block));
  const auto size_class = static_cast<unsigned>(page.size_class());
  if (size_class == 0) return deallocate_apart(block);
  thread_cache* cache = engine::local_cache;
  if (TARN_UNLIKELY(cache == &engine::no_cache)) {
    bool taken = false;
    cache = cache_or_processor(size_class, page, block, taken);
    if (TARN_LIKELY(taken)) return;
  }
  if constexpr (hardened_build) {
    if (const char* fault = fault_of(page, block)) os::fatal(fault, block);
    return hardened_block::take_back(page, block, cache);
  }
  if (TARN_LIKELY(cache != nullptr && cache->free_slow(size_class, page, block))) return;
  if (const char* fault = fault_of(page, block)) os::fatal(fault, block);
  free_mark::set(block);
  engine::central_tier.flush(size_class, &block, 1);
  engine::central_tier.settle(size_class);
}

TARN_COLD void* allocate_uncached(std::size_t alignment, std::size_t size) {
  if (has_no_class(size, alignment)) return allocate_large(size, alignment, false);
  engine::attach_thread();
  const unsigned size_class = aligned_class_of(object_size(size), alignment);
  engine::uncached_traffic.allocated += class_info(size_class).size;
  if (void* const block = allocate_profiled_by_bytes(size_class, size))
    return aligned_or_replaced(block, alignment, size_class);
  void* const block =
      take_or_gather(size, [=] { return engine::central_tier.take_one(size_class, home_of_thread()); });
  if (block == nullptr) {
    engine::uncached_traffic.allocated -= class_info(size_class).size;
    return out_of_memory();
  }
  if constexpr (hardened_build) hardened_block::hand_out_any(block, class_info(size_class).size);
  return aligned_or_replaced(block, alignment, size_class);
}

TARN_COLD void deallocate_uncached(void* block) {
  if constexpr (hardened_build) return deallocate_slow(block);
  const page_map::entry page = engine::map.find(address_of(block));
  if (page.size_class() == 0) return deallocate_slow(block);
  if (const char* fault = fault_of(page, block)) os::fatal(fault, block);
  put_into_span(static_cast<unsigned>(page.size_class()), block);
}

std::size_t usable_size(const void* block) {
  const page_map::entry page = engine::map.find(address_of(block));
  if (TARN_LIKELY(page.size_class() != 0)) {
    if (hardened_build && fault_of(page, block) != nullptr)
      os::fatal("size asked of a pointer that is no live and intact block", block);
    return usable_bytes(static_cast<unsigned>(page.size_class()), block);
  }
  const span* s = large_block::find(block);
  if (s != nullptr) return hardened_build ? hardened_large::usable_bytes(s) : s->bytes();
  if (hardened_build && hardened_zero::is_block(block, no_block_to_size)) return 0;
  std::size_t size = bytes_of_sampled(block);
  if (size != 0) return size;
  const unsigned unlisted = engine::central_tier.class_of_unlisted(block);
  if (unlisted != 0) return usable_bytes(unlisted, block);
  if (const span* const scoped = scope_core::span_of(block)) {
    size = scope_core::usable_size(scoped, block);
    if (size != 0 && scoped->size_class != 0) size -= kept_bytes;
  } else if (engine::guards.contains(block)) {
    size = engine::guards.size_of(block);
  }
  if (size == 0) os::fatal(no_block_to_size, block);
  return size;
}

void* reallocate(void* block, std::size_t size) {
  const page_map::entry page = engine::map.find(address_of(block));
  std::size_t have = 0;
  if (TARN_LIKELY(page.size_class() != 0)) {
    if (const char* fault = fault_of(page, block)) os::fatal(fault, block);
    have = usable_bytes(static_cast<unsigned>(page.size_class()), block);
    if (stays(have, size)) return block;
  } else if (!hardened_build || !hardened_zero::is_block(block, no_block_to_resize)) {
    span* s = large_block::find(block);
    const span* const scoped = s == nullptr ? scope_core::span_of(block) : nullptr;
    have = s == nullptr && scoped == nullptr ? bytes_of_sampled(block) : 0;
    if (s == nullptr && scoped == nullptr && have == 0) {
      const central::unlisted found = engine::central_tier.look_up_unlisted(block);
      if (found.has_changed) return reallocate(block, size);
      if (found.fault != nullptr) os::fatal(found.fault, block);
      if (found.size_class != 0) have = usable_bytes(found.size_class, block);
    }
    if (have != 0 && stays(have, size)) return block;
    if (s == nullptr && have == 0 &&
        (scoped != nullptr ? scope_core::usable_size(scoped, block) == 0 : !engine::guards.contains(block)))
      os::fatal(no_block_to_resize, block);
    if (have == 0) have = usable_size(block);
    if (size == have) return block;
    if ((scoped != nullptr || (hardened_build && s != nullptr)) && stays(have, size)) return block;
    if (!hardened_build && s != nullptr && size > largest_class_size && !engine::is_in_scope()) {
      const std::size_t before = s->pages;
      void* const resized = take_or_gather(size, [=] { return large_block::resize(s, size); });
      // A block of another length is another block to the profile.
      if (resized != nullptr && (resized != block || s->pages != before)) {
        span* const now = resized == block ? s : large_block::find(resized);
        engine::samples.remove_large(now);
        large_block::choose(now, size);
      }
      if (TARN_UNLIKELY(allocation_counts::innermost != nullptr) && resized != block)
        allocation_counts::add(size);
      return resized != nullptr ? resized : out_of_memory();
    }
  }
  const int error = errno;
  void* const fresh = allocate_to_grow(size);
  if (fresh == nullptr) {
    if (size > have) return nullptr;
    errno = error;
    return block;  // no memory is needed for fewer bytes
  }
  std::memcpy(fresh, block, copied_size(have, size));
  deallocate(block);
  return fresh;
}

}  // namespace tarn
