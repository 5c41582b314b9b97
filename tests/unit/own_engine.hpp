// SPDX-License-Identifier: MIT
// own_engine: all tiers of an engine, apart from the program's one, so that a test knows every span in it.
//
// Thread safety: that of its parts. Its reservations stay mapped when it goes: nothing in the engine is ever
// destroyed, so there is no code that would unmap them.
#pragma once

#include <memory>

#include "central/central.hpp"
#include "pages/first_touch.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"
#include "thread/registry.hpp"
#include "thread/thread_cache.hpp"

namespace tarn::testing_support {

struct own_engine {
  metadata_arena metadata;
  page_map map;
  first_touch touch;
  page_heap heap{metadata, map, touch};
  central middle{metadata, map, heap};
  cache_budget budget;
  thread_cache_registry registry{middle, budget};
};

// The page map's root is too big for a stack.
inline std::unique_ptr<own_engine> make_engine() { return std::make_unique<own_engine>(); }

}  // namespace tarn::testing_support
