// SPDX-License-Identifier: MIT
// What the files of malloc's slow paths share.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>

#include "background/reclaim.hpp"
#include "engine/engine.hpp"
#include "malloc/hardened_block.hpp"

namespace tarn {

// engine::take_or_reclaim(), but no memory is reclaimed for a `size` that the system would refuse in any case: otherwise an
// attacker who controls a size could empty caches and quarantines.
template <class Take>
void* take_or_reclaim(std::size_t size, Take take) {
  void* const block = take();
  if (TARN_LIKELY(block != nullptr) || !engine::heap.is_satisfiable(size)) return block;
  return engine::take_after_reclaim(take, [] {
    if constexpr (hardened_build) hardened_block::release_quarantine();
  });
}

// allocate() for a block that takes the place of a shorter one, and is likely to grow on.
void* allocate_grown(std::size_t size);

}  // namespace tarn
