// SPDX-License-Identifier: MIT
// recycler_magazine: an array of pointers to objects that wait to be used again, and of what is paid for each place.
//
// Layout: entries[0] is the sentinel that makes the pop from an empty magazine visible; objects lie in entries[1 .. count];
// entries[capacity + 1] is never paid, so that nothing is pushed there. Payments stay with the place when its object
// leaves, so that the next object there is free of charge: who takes and gives back in turn pays once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "pool/pool_memory.hpp"
#include "runtime/engine.hpp"
#include "tarn/detail/recycler_abi.hpp"

namespace tarn {

struct recycler_magazine {
  // Each fills a power of two of bytes.
  static constexpr std::size_t sizes = 3;
  static constexpr std::uint16_t capacities[sizes] = {4, 28, 252};

  recycler_magazine* next = nullptr;
  std::uint16_t count = 0;  // valid while no bin has it loaded
  std::uint16_t capacity;
  tarn_recycler_entry entries[2] = {};  // capacity + 2 of them

  explicit recycler_magazine(std::uint16_t places) : capacity(places) {
    for (std::size_t i = 0; i < places + 2U; ++i) entries[i] = {nullptr, 0};
  }

  [[nodiscard]] tarn_recycler_entry* begin() { return entries + 1; }
  [[nodiscard]] tarn_recycler_entry* top() { return begin() + count; }
  [[nodiscard]] tarn_recycler_entry* end() { return begin() + capacity; }

  static constexpr std::size_t bytes_for(std::size_t capacity) {
    return sizeof(recycler_magazine) + capacity * sizeof(tarn_recycler_entry);
  }
  // An empty one with nothing paid; null when there is no memory.
  static recycler_magazine* make(std::uint16_t capacity) {
    void* const memory = pool_memory::blocks.allocate(engine::metadata, bytes_for(capacity));
    return memory != nullptr ? new (memory) recycler_magazine(capacity) : nullptr;
  }
  static void unmake(recycler_magazine* m) { pool_memory::blocks.deallocate(m, bytes_for(m->capacity)); }
};
static_assert(recycler_magazine::bytes_for(recycler_magazine::capacities[0]) <= 128);
static_assert(recycler_magazine::bytes_for(recycler_magazine::capacities[1]) <= 512);
static_assert(recycler_magazine::bytes_for(recycler_magazine::capacities[2]) <= 4096);

}  // namespace tarn
