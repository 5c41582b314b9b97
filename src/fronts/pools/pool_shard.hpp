// SPDX-License-Identifier: MIT
// pool_shard: the depot of one or a few threads in a pool (slots/slot_depot.hpp), with what pools do otherwise.
//
// A slot goes back to the shard to which its span belongs, whichever thread frees it, so slots do not pile up in the
// shard of a thread that only frees. A shard without free slots takes spans from shards that have no threads, or more
// free slots than they need, before it takes fresh memory. It takes whole spans, never single slots: threads whose
// slots lie in the same spans would write to the same cache lines from then on.
//
// A pool's slots differ from malloc's objects in three ways. They carry no mark while they are free (a checked pool
// keeps its own records: checked_slots.cpp). Spans grow with the pool, up to 64 KiB, so that objects freed in random
// order belong to few spans. And fresh slots are carved one after the other when no used slot is left, so that memory
// is touched only as it is needed:
//
//     carving_:  | used before: free or taken | fresh ...            |
//                ^ start                      ^ start + capacity * size
//
// Thread safety: all members may be called by any thread. No lock is held across a system call.
// Invariants, whenever the lock is free:
//   - every span of the shard is in exactly one of: fresh_ (no slot carved), spans;
//   - at most one span outside of fresh_ is not carved to its end: carving_.
// So spans.taken() counts the carved slots that are not free in their spans: live, in bins, in full magazines, in transit,
// or lost by fork.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fronts/pools/pool_shared.hpp"
#include "pages/span.hpp"
#include "slots/slot_depot.hpp"

namespace tarn {

class alignas(separation) pool_shard : public slot_depot {
 public:
  pool_shard(pool_shared& pool, unsigned index)
      : slot_depot(static_cast<std::uint8_t>(index), true), pool_(pool) {}

  [[nodiscard]] pool_shared& pool() const { return pool_; }
  // The shard whose span the address lies in, or null.
  static pool_shard* owner_of(const void* address);

  enum class source : std::uint8_t { used, fresh };
  // Puts at most `most` slots into the empty magazine, used or fresh ones, and returns their number. They fill the
  // places from slots[most] down, the lowest address on top; if they are fewer than `most`, the caller moves them to
  // bottom().
  std::size_t take(magazine* m, std::size_t most, source from);

  // Puts those of the `count` slots back that belong to this shard; owners[i] is the span of freed[i]. Moves the other
  // slots to the front of `others`, their spans to the front of `owners`, and returns their number. Aborts on a slot
  // that is free already. Sets `drains` if the shard has begun to drain.
  std::size_t put(void* const* freed, span** owners, std::size_t count, void** others, bool& drains);

  // Hands a full magazine over; sets `empty_one` to an empty one in exchange, or null. False if there are enough.
  bool give_full(magazine* m, magazine*& empty_one) {
    return slot_depot::give_full(m, pool_.most_waiting(), &empty_one);
  }
  // An empty magazine for at least `slots` slots; null when there is no memory. Each shard keeps some, of the pool's
  // greatest length, so that threads need not take the lock of the magazines' size class, which all threads share.
  magazine* take_empty(std::size_t slots);
  // Keeps an empty magazine for take_empty(), or frees it if there are enough.
  void leave_empty(magazine* m);
  // Ends a period of decay for full magazines. Returns how many were not needed in it, or how many there are.
  std::uint32_t end_period_of_full(bool all) {
    os::lock_guard guard(lock, *this);
    return full.end_period(all);
  }
  // A full magazine whose slots count as moving from now on; null: there is none.
  magazine* take_to_put_back();

  // The most slots of a magazine while draining. Falls with the shard's slots in use, because a single slot in a bin
  // may keep a whole span in use.
  [[nodiscard]] std::size_t most_while_draining() const;
  // Whether other shards may take spans from this one.
  [[nodiscard]] bool can_spare() const;
  // Whether spans have free slots, as of a moment ago.
  [[nodiscard]] bool has_free() const {
    return free_hint.load(std::memory_order_relaxed) + spare_bytes() != 0;
  }

  void add_span(span* s);
  // Moves a span with free slots to the other shard: an empty one, else the one with the most free slots. False if
  // there is none.
  bool move_span_to(pool_shard& other);
  // Removes a span of which no slot is carved, and returns it; null if there is none.
  span* take_fresh_span();
  // The number of slots that can be handed out without another span.
  [[nodiscard]] std::size_t ready();
  // Removes an empty span, in state `purging`, if empty spans have more than `keep` bytes; with `keep` 0, else a fresh
  // span. Null if there is none.
  span* take_empty_span(std::size_t keep);
  // Removes any span, even with live objects. Null when there is none left.
  span* take_any_span();

  // Gives the memory of pages that lie wholly in free slots of partly used spans to the system. The slots stay free;
  // their next use faults the pages in again. Calls the system.
  void purge_idle_pages();

  [[nodiscard]] std::size_t taken();
  [[nodiscard]] std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }

  // Bins assigned to the shard; written under the registry's lock.
  std::atomic<unsigned> bins{0};
  // The memory node of their threads; under the registry's lock.
  std::uint8_t node = 0;

  void validate_locked() const TARN_REQUIRES(lock);
  // Calls visit(span) for all spans.
  template <class Visit>
  void for_each_span_locked(Visit visit) const TARN_REQUIRES(lock) {
    for (const span* s = fresh_.front(); s != nullptr; s = s->next) visit(*s);
    spans.for_each(visit);
  }
  // Calls visit(slot) for the free slots in full magazines.
  template <class Visit>
  void for_each_waiting_locked(Visit visit) const TARN_REQUIRES(lock) {
    for (const magazine* m = full.first(); m != nullptr; m = m->next) {
      for (std::size_t i = 1; i <= m->count; ++i) visit(m->slots[i]);
    }
  }

 private:
  friend class pool_shard_test_access;

  struct front;
  // What pools do in slot_depot::drop_idle_pages(). Not longer than for the slots that were free at the beginning: threads
  // that take and free slots make more of them all the time.
  struct idle_front {
    [[nodiscard]] bool goes_on() const { return seen < most; }
    static void locate(held_slots& slots) {
      slots.first = slots.of->start;
      slots.backed = slots.capacity;
    }
    void take() const { pool.note_moving(held.of->free_objects); }
    void drop();
    void give_back();

    pool_shared& pool;
    held_slots& held;
    const std::size_t most;
    std::size_t seen = 0;
    bool is_dropped = false;  // pages of the slots that are held
  };
  static pool_shard* of(const span* s);

  std::size_t carve_locked(void** slot, std::size_t most) TARN_REQUIRES(lock);
  // Updates the figures that other threads read without the lock.
  void note_change_locked() TARN_REQUIRES(lock);
  // Last step of removing a span (or null): the state becomes `purging`.
  span* detach_locked(span* s) TARN_REQUIRES(lock);

  pool_shared& pool_;
  span_list fresh_ TARN_GUARDED_BY(lock);
  span* carving_ TARN_GUARDED_BY(lock) = nullptr;
  std::atomic<std::size_t> peak_{0};  // written under the lock
};

inline void pool_shard::validate_locked() const {
  slot_depot::validate_locked();
  fresh_.validate();
  for (const span* s = fresh_.front(); s != nullptr; s = s->next)
    TARN_INVARIANT("pool_shard", this, s->capacity == 0);
  for_each_span_locked([this, carving = carving_](const span& s) {
    TARN_INVARIANT("pool_shard", this, s.owner.load(std::memory_order_relaxed) == this);
    TARN_INVARIANT("pool_shard", this, s.capacity == pool_.slots_in(&s) || s.capacity == 0 || &s == carving);
  });
}

}  // namespace tarn
