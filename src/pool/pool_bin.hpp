// SPDX-License-Identifier: MIT
// pool_bin: the two magazines that one thread has of one pool, or the only bin of a local pool.
//
//     loaded:  | null | slot | slot | slot |      |      |      spare: another magazine, full or empty, or null
//                                          ^ top         ^ limit
//
// Owner: its thread, or the thread that uses the local pool. Other threads may take the spare magazine, as from a
// thread_cache.
// Invariants: loaded->slots < top <= limit, loaded->slots[0] is null; free slots lie in [loaded->bottom(), top).
// A bin without a loaded magazine is void: empty and full at once, so that push and pop miss. So is a bin whose thread
// has ended, or whose pool is destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "central/magazine.hpp"
#include "pool/pool_core.hpp"

namespace tarn {

struct pool_bin : tarn_pool_bin, engine::front_bin<tarn_pool, pool_bin> {
  // For the registry: see there. Programs keep pointers to their threads' bins.
  static constexpr bool outlives_thread = true;
  static tarn_pool_bins& table() { return tarn_pool_local_bins; }
  static tarn_pool_bin* no_bin();
  void join() { shard = &core->assign_shard_locked(); }
  void leave() const { --shard->bins; }

  magazine* loaded = nullptr;
  std::atomic<magazine*> spare{nullptr};
  std::uint16_t most = 0;  // slots that a magazine may hold now; 0: no magazine yet
  pool_shard* shard = nullptr;
  std::atomic<std::uint32_t> slow_calls{0};
  std::atomic<std::uint32_t> slow_calls_seen{0};  // as of the last take_surplus()

  pool_bin() { make_void(); }

  static bool is_void(const tarn_pool_bin* b) { return b->top == b->limit && b->top[-1] == nullptr; }
  void make_void();

  // Allocates from an empty bin. Null when there is no memory. By the owner.
  void* allocate_slow();
  // Makes room in a full bin and takes the object. False when there is no memory for a magazine. By the owner.
  bool deallocate_slow(void* object);

  // Takes both magazines, as a chain; the bin is void afterwards. By the owner, or while no thread uses the bin.
  magazine* take_all();
  // By another thread: takes the spare magazine; with `only_if_idle` only if the owner has made no slow call since the
  // last call of this function. Null if there is none.
  magazine* take_surplus(bool only_if_idle);

  // The number of free slots in the bin; for another thread's bin it may be outdated.
  [[nodiscard]] std::size_t count() const;

 private:
  [[nodiscard]] std::size_t most_now() const;
  void load(magazine* m);
  void unload();
  bool grow();
  void make_room();
  void empty_in_place(magazine* m);
  magazine* hand_over(magazine* m);
  magazine* take_spare_magazine();
  void put_spare_magazine(magazine* m);
};

// The slots of a void bin: empty and full at once. Never written.
extern void* const void_slots[2];

}  // namespace tarn
