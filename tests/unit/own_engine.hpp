// SPDX-License-Identifier: MIT
// own_engine: all tiers of an engine, separate from the program's engine, so that a test knows every span in it.
//
// Thread safety: that of its parts. Its reservations stay mapped when it is destroyed: the program's engine is never
// destroyed, so there is no code to unmap them.
#pragma once

#include <memory>

#include "pages/first_touch.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"
#include "slots/central.hpp"
#include "threads/registry.hpp"
#include "threads/thread_cache.hpp"

namespace tarn::testing_support {

struct own_engine {
  metadata_arena metadata;
  page_map map;
  first_touch touch;
  page_heap heap{metadata, map, touch};
  block_store blocks{metadata};
  central central_tier{metadata, blocks, map, heap};
  cache_budget budget;
  thread_cache_registry registry{central_tier, budget};
};

// The page map's root is too big for a stack.
inline std::unique_ptr<own_engine> make_engine() { return std::make_unique<own_engine>(); }

// As the fast paths of malloc. Null: a miss.
inline void* pop(own_engine& engine, thread_cache& cache, unsigned size_class) {
  return size_classes::is_coarse(size_class) ? cache.pop_guarded(engine.map, size_class)
                                             : cache.pop_fine(class_info(size_class).size);
}
// take: an object of the class, as malloc gets one. give: gives an object back, as free does.
inline void* take(own_engine& engine, thread_cache& cache, unsigned size_class) {
  void* const object = pop(engine, cache, size_class);
  return object != nullptr ? object : cache.allocate_slow(size_class);
}
inline bool give(own_engine& engine, thread_cache& cache, void* object) {
  const page_map::entry page = engine.map.find(address_of(object));
  return cache.push(page, object) || cache.free_slow(static_cast<unsigned>(page.size_class()), page, object);
}

// Causes misses until the cache gets a capacity for the class: see misses_before_opening in thread_cache_budget.cpp.
inline void open_class(own_engine& engine, thread_cache& cache, unsigned size_class) {
  for (int i = 0; i < 100; ++i) give(engine, cache, take(engine, cache, size_class));
}

}  // namespace tarn::testing_support
