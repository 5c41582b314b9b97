// SPDX-License-Identifier: MIT
// magazine: an array of pointers to free objects of one class. Objects move between tiers only in magazines, and a full
// magazine is passed on by its pointer, without touching its content. (Bonwick and Adams, "Magazines and Vmem", USENIX
// 2001.)
//
//    slots[0]   [1]      [2]          [count]   [count + 1] … [capacity]
//   +--------+--------+--------+-- … --+--------+---------------------+
//   |  null  | object | object |       | object |      undefined      |
//   +--------+--------+--------+-- … --+--------+---------------------+
//              bottom()                           top: the next push; a pop reads the slot below
//
// slots[0] is a sentinel: a pop from an empty magazine reads null, so no counter is needed.
// Invariants, while no cache has it loaded: slots[0] == null; count <= capacity; slots[1] to slots[count] are not null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/units.hpp"
#include "pages/metadata_pool.hpp"
#include "slots/size_class.hpp"

namespace tarn {

struct magazine {
  magazine* next = nullptr;    // link of a depot's list
  std::uint16_t count = 0;     // objects; not maintained while a cache has the magazine loaded
  std::uint16_t capacity = 0;  // objects; 0 for the shared empty magazine
  std::uint8_t size_index = 0;
  std::uint8_t drained_class = 0;  // while processor_caches::drain() holds it
  void* slots[1] = {nullptr};      // capacity + 1 of them, and one that is no object's

  [[nodiscard]] constexpr void** bottom() { return slots + 1; }
  // After a refill from the top: moves the last `found` of the first `most` objects to the bottom.
  void close_gap(std::size_t most, std::size_t found) {
    if (found == most) return;
    std::memmove(static_cast<void*>(bottom()), static_cast<const void*>(bottom() + (most - found)),
                 found * sizeof(void*));
  }
  void validate() const {
    TARN_INVARIANT("magazine", this, slots[0] == nullptr);
    TARN_INVARIANT("magazine", this, count <= capacity);
    for (std::size_t i = 1; i <= count; ++i) TARN_INVARIANT("magazine", this, slots[i] != nullptr);
  }
};

// A magazine for one object or slot, on the stack.
struct single_magazine {
  magazine head;
  void* slot = nullptr;

  [[nodiscard]] void* object() { return head.bottom()[0]; }
};

// Stands for "no magazine" in a bin: empty and full at once. Never written.
inline constexpr magazine empty_magazine{};
constexpr magazine* no_magazine() { return const_cast<magazine*>(&empty_magazine); }

// Memory for magazines of three capacities: a cache starts with a small one and replaces it as demand grows.
class magazine_store : public metadata_pools<3> {
 public:
  static constexpr std::size_t sizes = 3;
  static constexpr std::size_t capacities[sizes] = {12, 60, largest_magazine};

  constexpr magazine_store()
      : metadata_pools{{{bytes_for(capacities[0]), cache_line},
                        {bytes_for(capacities[1]), cache_line},
                        {bytes_for(capacities[2]), cache_line}}} {}

  // An empty magazine of capacities[index] slots. Null: no memory.
  magazine* allocate(metadata_arena& arena, std::size_t index) {
    void* memory = pools[index].allocate(arena);
    if (memory == nullptr) return nullptr;
    auto* m = new (memory) magazine;
    m->capacity = static_cast<std::uint16_t>(capacities[index]);
    m->size_index = static_cast<std::uint8_t>(index);
    return m;
  }
  // The index of the smallest magazine that holds this many objects.
  static constexpr std::size_t index_for(std::size_t objects) {
    std::size_t index = 0;
    while (index + 1 < sizes && capacities[index] < objects) ++index;
    return index;
  }
  void deallocate(magazine* m) { pools[m->size_index].deallocate(m); }

 private:
  // With a slot above the last one, for the mark of threads/processor_caches.hpp. (It takes the rest of a cache line.)
  static constexpr std::size_t bytes_for(std::size_t capacity) {
    return sizeof(magazine) + (capacity + 1) * sizeof(void*);
  }
};

}  // namespace tarn
