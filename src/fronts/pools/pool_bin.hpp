// SPDX-License-Identifier: MIT
// pool_bin: the two magazines that one thread has of one pool, or the only bin of a local pool; see magazine_bin.
//
// Owner: its thread, or the thread that uses the local pool. Other threads may take the spare magazine.
// A bin without a loaded magazine is void: empty and full at once, so that push and pop miss. So is a bin whose thread
// has ended, or whose pool is destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fronts/pools/pool_core.hpp"
#include "slots/magazine_bin.hpp"

namespace tarn {

struct pool_bin : tarn_pool_bin, engine::front_bin<tarn_pool, pool_bin>, magazine_bin<pool_bin> {
  // For the registry: see there. Programs keep pointers to their threads' bins.
  static constexpr bool outlives_thread = true;
  static tarn_pool_bins& table() { return tarn_pool_local_bins; }
  static tarn_pool_bin* no_bin();
  void join() { shard = &core->assign_shard_locked(node); }
  void leave() const { --shard->bins; }

  // For magazine_bin: see there.
  magazine*& loaded() { return loaded_; }
  spare_magazine<magazine>& spare() { return spare_; }
  void**& top() { return tarn_pool_bin::top; }
  void**& limit() { return tarn_pool_bin::limit; }
  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] std::size_t most_now() const;
  bool raise_most();
  magazine* new_magazine() { return shard->take_empty(most_); }
  void discard(magazine* m) { shard->leave_empty(m); }
  magazine* take_full() { return shard->take_full(); }
  static bool give_full(magazine* m, magazine*& empty) { return pool_core::give_full(m, empty); }
  std::size_t refill(magazine* m);
  void flush(void* const* slots, std::size_t count) { core->flush(slots, count); }
  [[nodiscard]] bool drains() const { return shard->draining(); }

  pool_bin() { make_void(); }

  static bool is_void(const tarn_pool_bin* b) { return b->top == b->limit && b->top[-1] == nullptr; }

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

  // Calls visit(slot) for the free slots in both magazines. Requires: the bin's thread does not use it, and no thread
  // takes its spare magazine.
  template <class Visit>
  void for_each_slot(Visit visit) const {
    for (void* const* slot = loaded_->slots + 1; slot < tarn_pool_bin::top; ++slot) visit(*slot);
    const magazine* const other = spare_.look();
    for (std::size_t i = 1; other != nullptr && i <= other->count; ++i) visit(other->slots[i]);
  }

  pool_shard* shard = nullptr;

 private:
  void note_slow_call() {
    slow_calls_.store(slow_calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  magazine* loaded_ = nullptr;
  spare_magazine<magazine> spare_;
  std::uint16_t most_ = 0;  // slots that a magazine may hold now; 0: no magazine yet
  std::atomic<std::uint32_t> slow_calls_{0};
  std::atomic<std::uint32_t> slow_calls_seen_{0};  // as of the last take_surplus()
};

}  // namespace tarn
