// SPDX-License-Identifier: MIT
// magazine: an array of pointers to free objects of one class. Objects move between tiers in magazines only,
// and a full one changes hands by its pointer: nothing in it is touched on the way. (Bonwick and Adams,
// "Magazines and Vmem", USENIX 2001.)
//
// Layout: slots[0] is null, a sentinel that makes the pop from an empty magazine visible without a counter;
// objects lie in slots[1 .. count]; what the slots above hold means nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "base/units.hpp"
#include "central/size_class.hpp"
#include "pages/metadata_arena.hpp"

namespace tarn {

struct magazine {
  magazine* next = nullptr;    // in a depot
  std::uint16_t count = 0;     // valid while no cache has it loaded
  std::uint16_t capacity = 0;  // objects; 0 for the shared empty magazine
  std::uint8_t size_index = 0;
  void* slots[1] = {nullptr};  // capacity + 1 of them

  [[nodiscard]] void** bottom() { return slots + 1; }
};

// Memory for magazines, in three sizes: they start small and grow with demand.
class magazine_store {
 public:
  static constexpr std::size_t sizes = 3;
  static constexpr std::size_t capacities[sizes] = {12, 60, largest_magazine};

  constexpr magazine_store() = default;

  // An empty magazine of size `index`; null when there is no memory.
  magazine* allocate(metadata_arena& arena, std::size_t index) {
    void* memory = pools_[index].allocate(arena);
    if (memory == nullptr) return nullptr;
    auto* m = new (memory) magazine;
    m->capacity = static_cast<std::uint16_t>(capacities[index]);
    m->size_index = static_cast<std::uint8_t>(index);
    return m;
  }
  void deallocate(magazine* m) { pools_[m->size_index].deallocate(m); }

  void walk_locks(const os::lock_walk& walk) {
    for (metadata_pool& pool : pools_) walk.visit(pool.lock());
  }

 private:
  static constexpr std::size_t bytes_for(std::size_t capacity) {
    return sizeof(magazine) + capacity * sizeof(void*);
  }

  metadata_pool pools_[sizes] = {{bytes_for(capacities[0]), cache_line},
                                 {bytes_for(capacities[1]), cache_line},
                                 {bytes_for(capacities[2]), cache_line}};
};

}  // namespace tarn
