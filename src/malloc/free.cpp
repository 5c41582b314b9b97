// SPDX-License-Identifier: MIT
// The slow paths of free(): what the calling thread's cache does not take at once.
#include "engine/slow_calls.hpp"
#include "malloc/allocate.hpp"
#include "malloc/block.hpp"
#include "malloc/hardened_block.hpp"
#include "malloc/large_block.hpp"
#include "malloc/thread_mode.hpp"
#include "os/report.hpp"

namespace tarn {

void put_into_span(unsigned size_class, void* object) {
  free_mark::set(engine::map, size_class, object);
  engine::central_tier.flush(size_class, &object, 1);
  engine::central_tier.release_surplus(size_class);
}

namespace {

// For a thread that uses the processors' caches. False: the pointer is not an object, or is free already.
bool give_to_processor(unsigned size_class, page_map::entry page, void* object) {
  if (!page.begins_object(address_of(object), class_info(size_class).reciprocal) ||
      free_mark::is_set(engine::map, size_class, object)) {
    return false;
  }
  free_mark::set(engine::map, size_class, object);
  engine::uncached_traffic.freed += class_info(size_class).size;
  if (TARN_UNLIKELY(size_classes::is_grain(size_class) || !engine::processors.push(size_class, object)))
    engine::processors.free_slow(size_class, object);
  return true;
}

// free() of a block that has no size class in the page map.
TARN_NOINLINE void deallocate_unclassed(page_map::entry page, void* block) {
  if (TARN_UNLIKELY(engine::noted_traffic != nullptr)) engine::note_traffic();
  // A large block that nobody else frees at this moment needs no more than this of classify_unclassed().
  if (span* const s = page.owner(address_of(block));
      TARN_LIKELY(s != nullptr && s->start == address_of(block)) &&
      TARN_LIKELY(s->state.load(std::memory_order_relaxed) == span_state::large) &&
      large_block::deallocate(s))
    return;
  const pointee found = classify_unclassed(page, block);
  if (!actions_of(found.kind).free(found, block)) report_bad_free(block);
}

// Out of line, as large blocks would otherwise save and restore its registers.
TARN_NOINLINE void deallocate_object(page_map::entry page, void* object) {
  const auto size_class = static_cast<unsigned>(page.size_class());
  const thread_mode mode = mode_to_free();
  if (TARN_UNLIKELY(mode == thread_mode::processor) &&
      TARN_LIKELY(give_to_processor(size_class, page, object)))
    return;
  thread_cache* const cache = mode == thread_mode::cached ? engine::local_cache : nullptr;
  if constexpr (hardened_build) {
    if (const char* fault = fault_of(page, object)) os::fatal(fault, object);
    return hardened_block::take_back(page, object, cache);
  }
  if (TARN_LIKELY(cache != nullptr && cache->free_slow(size_class, page, object))) return;
  if (const char* fault = fault_of(page, object)) os::fatal(fault, object);
  put_into_span(size_class, object);
}

}  // namespace

bool free_object(const pointee& found, void* object) {
  deallocate_object(found.page, object);
  return true;
}

TARN_NOINLINE void deallocate_slow(void* block) {
  if (block == nullptr) return;
  const page_map::entry page = engine::map.find(address_of(block));
  if (TARN_UNLIKELY(page.size_class() == 0)) {
    return slow_calls::counted(slow_calls::kind::large_free, [=] { deallocate_unclassed(page, block); });
  }
  slow_calls::counted(slow_calls::kind::free, [=] { deallocate_object(page, block); });
}

TARN_COLD void deallocate_uncached(void* block) {
  if constexpr (hardened_build) return deallocate_slow(block);
  const pointee found = classify(block);
  if (found.kind != block_kind::object) return deallocate_slow(block);
  if (const char* fault = fault_of(found.page, block)) os::fatal(fault, block);
  engine::uncached_traffic.freed += class_info(found.size_class).size;
  put_into_span(found.size_class, block);
}

}  // namespace tarn
