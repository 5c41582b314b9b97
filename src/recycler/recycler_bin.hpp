// SPDX-License-Identifier: MIT
// recycler_bin: one thread's magazines of one recycler: the one in use, a full one, and an empty one.
//
// Owner: its thread, which is inside of it between enter() and leave() (tarn/detail/recycler_abi.hpp). Others may take
// the spare magazine at any time, and all that is in the bin while they have it claimed and the owner is outside.
// Invariants: loaded == null and top is void_top(), or loaded->begin() <= top <= loaded->end(); objects lie below top;
// top->paid decides what fits. The spare magazine is null or holds at least one object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "recycler/recycler_core.hpp"

namespace tarn {

struct recycler_bin : tarn_recycler_bin {
  recycler_core* core = nullptr;
  recycler_magazine* loaded = nullptr;
  std::atomic<recycler_magazine*> spare{nullptr};
  recycler_magazine* empty = nullptr;  // one that was loaded before
  std::uint16_t most = 0;              // places that its magazines have now
  recycler_bin* next_of_thread = nullptr;
  recycler_bin* next = nullptr;      // in the recycler's list, guarded by the registry's lock
  recycler_bin* previous = nullptr;  // likewise

  recycler_bin() : tarn_recycler_bin{void_top(), {}, 0, {}, {}} {}

  // Above it nothing is paid, and below it there is no object. Only read.
  static tarn_recycler_entry* void_top();

  // By the owner, inside. An object, or null: neither here nor handed over.
  void* get();
  // The same of a magazine that was stolen from another bin.
  void* get_from(recycler_magazine* m);
  // Keeps the object. False: the budget has no room for it, or there is no memory.
  bool give(void* object, std::size_t bytes);

  // By another thread, at any time: the spare magazine, or null.
  recycler_magazine* take_spare_magazine();
  // By the owner, or who has it claimed: what it holds, as a chain; magazines without objects are discarded.
  recycler_magazine* take_all();
  // Likewise: what waits in it.
  void add_to(tarn_recycler_figures& out) const;
  // In a forked child: what its places have paid.
  void add_payments(std::size_t& bytes, std::size_t& objects) const;

 private:
  [[nodiscard]] bool pay(std::size_t bytes);
  void refund_unused();
  void load(recycler_magazine* m);
  void unload() { loaded->count = static_cast<std::uint16_t>(top - loaded->begin()); }
  void* pop_one();
  void keep_empty(recycler_magazine* m);
  bool make_room();
  void put_spare_magazine(recycler_magazine* m);
};

}  // namespace tarn
