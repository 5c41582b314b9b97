// SPDX-License-Identifier: MIT
// Magazines of pools. A pool may have thousands of long ones waiting, an eighth of what they hold in pointers, so these
// are objects of malloc's size classes, whose memory goes back when it is not needed; the short ones, of which a bin has
// two, are metadata.
//
// Thread safety: any thread, also one without a thread cache.
#pragma once

#include <cstring>

#include "base/hardened.hpp"
#include "central/free_mark.hpp"
#include "central/magazine.hpp"
#include "runtime/engine.hpp"

namespace tarn::pool_magazine {

// Long ones are made so many at a time: the lock is one that all threads share.
inline constexpr std::size_t batch = 8;
inline constexpr std::size_t long_index = magazine_store::sizes - 1;
inline constexpr std::size_t long_bytes = sizeof(magazine) + largest_magazine * sizeof(void*);

// An empty one for at least so many slots (largest_magazine at most), or, of long ones, a chain of them; null when there
// is no memory.
inline magazine* allocate_some(std::size_t slots) {
  std::size_t index = 0;
  while (index < long_index && magazine_store::capacities[index] < slots) ++index;
  if (index != long_index) return engine::central_tier.magazines().allocate(engine::metadata, index);
  struct {
    magazine head;
    void* slots[batch] = {};
  } some;
  magazine* chain = nullptr;
  for (std::size_t left = engine::central_tier.refill(class_of_size(long_bytes), &some.head, batch);
       left != 0; --left) {
    void* const memory = some.head.bottom()[left - 1];
    free_mark::clear(memory);
    auto* const m = new (memory) magazine;
    m->capacity = largest_magazine;
    m->size_index = long_index;
    m->next = chain;
    chain = m;
  }
  return chain;
}

inline void deallocate(magazine* m) {
  if (m->size_index != long_index) return engine::central_tier.magazines().deallocate(m);
  const unsigned size_class = class_of_size(long_bytes);
  void* memory = m;
  // Free objects are zero there.
  if constexpr (hardened_build) std::memset(memory, 0, long_bytes);
  free_mark::set(memory);
  engine::central_tier.flush(size_class, &memory, 1);
  engine::central_tier.settle(size_class);
}

}  // namespace tarn::pool_magazine
