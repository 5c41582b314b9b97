// SPDX-License-Identifier: MIT
// pool_magazine: memory for the magazines of pools. A pool may have thousands of full long magazines, with a pointer
// per slot; so long magazines are objects of malloc's size classes, whose memory goes back to the system when it is
// not needed. Short magazines, of which a bin has two, are metadata, which never goes back.
//
// Thread safety: any thread, also one without a thread cache.
#pragma once

#include <cstring>

#include "base/hardened.hpp"
#include "engine/engine.hpp"
#include "slots/free_mark.hpp"
#include "slots/magazine.hpp"

namespace tarn::pool_magazine {

// Long magazines are allocated in batches of this number, because all threads share the lock of their size class.
inline constexpr std::size_t batch = 8;
inline constexpr std::size_t long_index = magazine_store::sizes - 1;
inline constexpr std::size_t long_bytes = sizeof(magazine) + largest_magazine * sizeof(void*);

// An empty magazine for at least `slots` slots (at most largest_magazine); for long ones a chain of several. Null when
// there is no memory.
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
  // The hardened build requires free objects to be zero.
  if constexpr (hardened_build) std::memset(memory, 0, long_bytes);
  free_mark::set(memory);
  engine::central_tier.flush(size_class, &memory, 1);
  engine::central_tier.release_surplus(size_class);
}

}  // namespace tarn::pool_magazine
