// SPDX-License-Identifier: MIT
// recycler_magazine: an array of pointers to idle objects, with the bytes of the budget that each place has paid.
//
//     entries:   [0]      [1]    ...   [count]   ...   [capacity]   [capacity + 1]
//     object:    null     objects ...  object           -            -
//     paid:      -        bytes ...    bytes     ...   bytes or 0   0
//              sentinel                                              sentinel
//
// The first sentinel makes pop find that the magazine is empty, the second makes push find that it is full. A payment
// stays with the place when its object leaves, so a thread that gets and gives back in turn pays once.
// Thread safety: none; a magazine belongs to one bin, or to a list that is guarded by a lock.
// Invariants: the sentinels hold no object and have paid nothing; while no bin has the magazine loaded, count <=
// capacity, and the first `count` places hold an object and have paid its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "engine/engine.hpp"
#include "fronts/recyclers/recycler_budget.hpp"
#include "os/invariant.hpp"
#include "tarn/detail/recycler_bin.hpp"

namespace tarn {

struct recycler_magazine {
  // Chosen so that each magazine has at most a power of two of bytes.
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
  // Adds what its places have paid.
  void add_to(recycler_payment& sum) {
    for (const tarn_recycler_entry* e = begin(); e != end(); ++e) sum.add(e->paid);
  }

  void validate() {
    TARN_INVARIANT("recycler_magazine", this, count <= capacity);
    TARN_INVARIANT("recycler_magazine", this, begin()[-1].object == nullptr && end()->paid == 0);
    for (const tarn_recycler_entry* e = begin(); e != top(); ++e)
      TARN_INVARIANT("recycler_magazine", this, e->object != nullptr && e->paid != 0);
  }

  static constexpr std::size_t bytes_for(std::size_t capacity) {
    return sizeof(recycler_magazine) + capacity * sizeof(tarn_recycler_entry);
  }
  // An empty magazine with nothing paid; null when there is no memory.
  static recycler_magazine* make(std::uint16_t capacity) {
    void* const memory = engine::blocks.allocate(bytes_for(capacity));
    return memory != nullptr ? new (memory) recycler_magazine(capacity) : nullptr;
  }
  static void unmake(recycler_magazine* m) { engine::blocks.deallocate(m, bytes_for(m->capacity)); }
};
static_assert(recycler_magazine::bytes_for(recycler_magazine::capacities[0]) <= 128);
static_assert(recycler_magazine::bytes_for(recycler_magazine::capacities[1]) <= 512);
static_assert(recycler_magazine::bytes_for(recycler_magazine::capacities[2]) <= 4096);

}  // namespace tarn
