// SPDX-License-Identifier: MIT
// pool_bin: one thread's two magazines of one pool, or a local pool's own.
//
// Owner: its thread, or whoever uses the local pool. Other threads may take the spare magazine while the owner is
// idle, as from a thread_cache.
// Invariants: loaded->slots < top <= limit, loaded->slots[0] is null; free slots lie in [loaded->bottom(), top).
// A bin whose thread has ended, or that has no pool any more, is void: its top and limit are those of an empty bin, so
// that whoever still comes to it misses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "central/magazine.hpp"
#include "pool/pool_core.hpp"

namespace tarn {

class thread_cache;

struct pool_bin : tarn_pool_bin {
  magazine* loaded = nullptr;
  std::atomic<magazine*> spare{nullptr};
  pool_core* pool = nullptr;
  pool_bin* next_of_thread = nullptr;
  pool_bin* next = nullptr;      // in the pool's list, guarded by the registry's lock
  pool_bin* previous = nullptr;  // likewise
  std::uint16_t most = 0;        // slots that a magazine may hold now
  pool_shard* shard = nullptr;
  long thread_id = 0;
  const thread_cache* cache = nullptr;  // its thread's; null for a local pool's
  std::atomic<std::uint32_t> slow_calls{0};
  std::atomic<std::uint32_t> slow_calls_seen{0};  // as of the last take_surplus()

  pool_bin() { make_void(); }

  static bool is_void(const tarn_pool_bin* b) { return b->top == b->limit && b->top[-1] == nullptr; }
  void make_void();

  // The bin is empty: a slot, or null when there is no memory.
  void* allocate_slow();
  // The bin is full: makes room and takes the object. False when there is no memory for a magazine.
  bool deallocate_slow(void* object);

  // What it holds, as a chain; the bin is void then. By its owner, or when nobody uses it.
  magazine* take_all();
  // By another thread: takes the spare magazine, `only_if_idle` only of an owner that has made no slow call since the
  // last time. Null if there is none.
  magazine* take_surplus(bool only_if_idle);

  // Slots in it; of another thread's bin the answer is a moment old.
  [[nodiscard]] std::size_t count() const;

 private:
  [[nodiscard]] std::size_t most_now() const;
  void load(magazine* m);
  void unload();
  bool grow();
  void make_room();
  void empty_in_place(magazine* m);
  magazine* hand_over(magazine* m);
  magazine* take_spare();
  void put_spare(magazine* m);
};

// Empty and full at once. Only read.
extern void* const void_slots[2];

}  // namespace tarn
