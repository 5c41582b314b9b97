// SPDX-License-Identifier: MIT
#include "malloc/hardened_block.hpp"

#include "fronts/scopes/scope_core.hpp"
#include "malloc/hardened_large_quarantine.hpp"
#include "os/report.hpp"

namespace tarn::hardened_block {
namespace {

constexpr const char* overflow_text = "a write past the end of a block, detected when it was freed";
constexpr const char* underflow_text = "a write before a block, or past the end of the one before it";
constexpr const char* written_text = "a write to a block after it was freed";

void put_back(void* leaving) {
  put_into_span({leaving, static_cast<unsigned>(engine::map.class_of(address_of(leaving)))});
}

}  // namespace

void hand_out_any(void* object, std::size_t size) { hand_out(object, size); }

// The first object in a page may be the first of its span, before which there is none.
bool is_sound_before_first(const span* s, std::uintptr_t object, std::size_t size) {
  if (object - objects::first_of(s) < size) return true;
  const word found = __atomic_load_n(canary_at(object - size, size), __ATOMIC_RELAXED);
  return found == 0 || found == canary_of(object - size);
}

void report_written(const void* object) { os::fatal(written_text, object); }

const char* fault_of(page_map::entry page, const void* block) {
  const std::size_t size = class_info(static_cast<unsigned>(page.size_class())).size;
  const word found = __atomic_load_n(canary_at(address_of(block), size), __ATOMIC_RELAXED);
  if (found == 0 && is_zero(block, size)) return "double free";
  if (found != canary_of(address_of(block))) return overflow_text;
  return is_sound_before_first(page.owner(address_of(block)), address_of(block), size) ? nullptr
                                                                                       : underflow_text;
}

void take_back(page_map::entry page, void* block, thread_cache* cache) {
  const auto size_class = static_cast<unsigned>(page.size_class());
  const std::size_t size = class_info(size_class).size;
  if (const char* const fault = hardened_block::fault_of(page, block)) os::fatal(fault, block);
  // Of two threads that free one block, one finds the canary; the other ends the process.
  if (!take_canary(canary_at(address_of(block), size), canary_of(address_of(block))))
    os::fatal("double free", block);
  zero(block, size);
  if (cache != nullptr && size_class <= thread_quarantine::small_end) {
    const quarantined leaving = cache->quarantine().exchange({block, size_class}, size_class);
    if (!leaving.empty()) put_into_span(leaving);
    return;
  }
  if (void* const leaving = hardened_large_quarantine::exchange(block, size)) put_back(leaving);
}

void take_back_scoped(const span* s, void* block) {
  const std::size_t size = class_info(s->size_class).size;
  word* const canary = canary_at(address_of(block), size);
  if (!take_canary(canary, canary_of(address_of(block))))
    os::fatal(*canary == 0 && is_zero(block, size) ? "double free" : overflow_text, block);
  if (!is_sound_before_first(s, address_of(block), size)) os::fatal(underflow_text, block);
  zero(block, size);
}

void release_quarantine() { hardened_large_quarantine::take_all(put_back); }

void put_into_span(quarantined leaving) {
  void* object = leaving.object();
  const unsigned size_class = leaving.size_class();
  thread_cache* const cache = engine::local_cache;
  if (cache != &engine::no_cache) {
    if (cache->free_slow(size_class, engine::map.find(address_of(object)), object)) return;
  }
  engine::central_tier.flush(size_class, &object, 1);
  engine::central_tier.release_surplus(size_class);
}

}  // namespace tarn::hardened_block
