// SPDX-License-Identifier: MIT
// recycler_bin: one thread's magazines of one recycler: loaded (in use), spare (full), and empty.
//
// Owner: its thread, which is inside the bin between enter() and leave() (tarn/detail/recycler_bin.hpp). Other threads
// may take the spare magazine at any time, and everything else while they have the bin claimed and the owner is
// outside.
// Invariants: loaded == null and top is void_top(), or loaded->begin() <= top <= loaded->end(); objects lie below top;
// an object fits if its bytes are at most top->paid. The spare magazine is null or holds at least one object; `empty`
// holds none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fronts/recyclers/recycler_core.hpp"
#include "slots/magazine_bin.hpp"

namespace tarn {

struct recycler_bin : tarn_recycler_bin, engine::front_bin<tarn_recycler, recycler_bin> {
  // For the registry: see there. Threads find their bins in their tables only, which thread_ends() frees.
  static constexpr bool outlives_thread = false;
  static tarn_recycler_bins& table() { return tarn_recycler_local_bins; }
  static recycler_bin* no_bin() { return nullptr; }
  void join();
  void leave();

  recycler_magazine* loaded = nullptr;
  spare_magazine<recycler_magazine> spare;
  recycler_magazine* empty = nullptr;  // was loaded before; kept with its payments
  std::uint16_t most = 0;              // places of the bin's newest magazine

  recycler_bin() : tarn_recycler_bin{void_top(), {}, 0, {}, {}} {}

  // Whether the owner is inside. acquire: partner of the release in leave(), for what the owner has written.
  [[nodiscard]] bool is_entered() const {
    return busy.load(std::memory_order_acquire) != 0 || (taken.load(std::memory_order_acquire) & 1) != 0;
  }
  // The gets that it has served.
  [[nodiscard]] std::uint64_t hits() const { return taken.load(std::memory_order_relaxed) / 2; }

  // `top` of a bin without a loaded magazine: no object below it, nothing paid at it. Never written.
  static tarn_recycler_entry* void_top();

  // By the owner, inside. An object of the bin, or of a magazine that was handed over; null if there is none.
  void* get();
  // By the owner, inside. Loads a magazine with objects, such as one stolen from another bin, and returns one of them.
  // Requires: the loaded magazine is empty.
  void* get_from(recycler_magazine* m);
  // By the owner, inside. Keeps the object. False: the budget has no room for it, or there is no memory.
  bool give(void* object, std::size_t bytes);

  // By the owner, or a thread that has claimed the bin: takes all objects, as a chain of magazines; magazines without
  // objects are discarded.
  recycler_magazine* take_all();
  // By a thread that has claimed the bin: adds the idle objects and their bytes to `out`.
  void add_to(tarn_recycler_stats& out) const;
  // In a forked child: adds the payments of the bin's places.
  void add_to(recycler_payment& sum) const;
  // Checks the invariants. By the owner, inside.
  void validate();

 private:
  [[nodiscard]] bool pay(std::size_t bytes);
  void refund_unused();
  void load(recycler_magazine* m);
  void unload() { loaded->count = static_cast<std::uint16_t>(top - loaded->begin()); }
  void* pop_one();
  void keep_empty(recycler_magazine* m);
  bool make_room();
};

}  // namespace tarn
