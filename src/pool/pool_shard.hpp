// SPDX-License-Identifier: MIT
// pool_shard: a part of a pool that one or a few threads share: spans of its own, and full magazines for hand-over.
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
// Invariants, whenever the lock of the depot is free:
//   - every span of the shard is in exactly one of: fresh_ (no slot carved), full_ (no slot free), the depot's lists;
//     its free_objects is the number of its free bits;
//   - at most one span outside of fresh_ is not carved to its end: carving_;
//   - depot_.taken() = the shard's carved slots that are not free in their spans: live, in bins, in full magazines, in
//     transit, or lost by fork;
//   - spare_bytes_ = sum of the lengths of the depot's spare spans.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "central/object_depot.hpp"
#include "pages/span.hpp"
#include "pool/pool_shared.hpp"

namespace tarn {

class alignas(separation) pool_shard {
 public:
  pool_shard(pool_shared& pool, unsigned index) : pool_(pool), index_(index) {}

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

  // A full magazine that a thread has handed over; null if there is none.
  magazine* take_full();
  // Hands a full magazine over; sets `empty` to an empty one in exchange, or null. False if there are enough.
  bool give_full(magazine* m, magazine*& empty);

  // An empty magazine for at least `slots` slots; null when there is no memory. Each shard keeps some, so that threads
  // need not take the lock of the magazines' size class, which all threads share.
  magazine* take_empty(std::size_t slots);
  // Keeps an empty magazine for take_empty(), or frees it if there are enough.
  void leave_empty(magazine* m);
  // Frees the empty magazines that were not needed since the last call, or `all`.
  void free_idle_empties(bool all);

  // As object_depot::draining: a good part of the shard's memory is free, in partly used spans.
  [[nodiscard]] bool draining() const { return depot_.draining.load(std::memory_order_relaxed); }
  // The most slots of a magazine while draining. Falls with the shard's slots in use, because a single slot in a bin
  // may keep a whole span in use.
  [[nodiscard]] std::size_t most_while_draining() const {
    return most_while_draining_.load(std::memory_order_relaxed);
  }
  // Whether other shards may take spans from this one.
  [[nodiscard]] bool can_spare() const;
  // Free slots in spans, as of a moment ago.
  [[nodiscard]] std::size_t free_hint() const { return free_hint_.load(std::memory_order_relaxed); }

  void add_span(span* s);
  // Moves a span with free slots to the other shard: an empty one, else the one with the most free slots. False if
  // there is none.
  bool move_span_to(pool_shard& other) TARN_NOT_ANALYZED;
  // Removes a span of which no slot is carved, and returns it; null if there is none.
  span* take_fresh_span();
  // The number of slots that can be handed out without another span.
  [[nodiscard]] std::size_t ready();

  // Takes the full magazines that were not needed since the last call, or `all`, as a chain. Their slots count as
  // moving.
  magazine* take_idle_magazines(bool all);
  // Removes an empty span, in state `purging`, if empty spans have more than `keep` bytes; with `keep` 0, else a fresh
  // span. Null if there is none.
  span* take_empty_span(std::size_t keep);
  // Removes any span, even with live objects. Null when there is none left.
  span* take_any_span();

  // Gives the memory of pages that lie wholly in free slots of partly used spans to the system. The slots stay free;
  // their next use faults the pages in again. `walk` is the number of this walk, to visit each span once. Calls the
  // system.
  void purge_idle_pages(std::uint8_t walk);

  [[nodiscard]] std::size_t spare_bytes() const { return spare_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t taken();
  [[nodiscard]] std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t waiting();  // slots in full magazines

  // Bins assigned to the shard; written under the registry's lock.
  std::atomic<unsigned> bins{0};
  // The memory node of their threads; under the registry's lock.
  std::uint8_t node = 0;

  os::mutex& lock() TARN_RETURNS_LOCK(depot_.lock) { return depot_.lock; }
  void walk_locks(const os::lock_walk& walk) { walk.visit(depot_.lock); }
  void validate_locked() const TARN_REQUIRES(depot_.lock);
  // Calls visit(span) for all spans.
  template <class Visit>
  void for_each_span_locked(Visit visit) const TARN_REQUIRES(depot_.lock) {
    for (const span_list* list : {&full_, &fresh_}) {
      for (const span* s = list->front(); s != nullptr; s = s->next) visit(*s);
    }
    depot_.for_each_free(visit);
  }
  // Calls visit(slot) for the free slots in full magazines.
  template <class Visit>
  void for_each_waiting_locked(Visit visit) const TARN_REQUIRES(depot_.lock) {
    for (const magazine* m = depot_.full.first(); m != nullptr; m = m->next) {
      for (std::size_t i = 1; i <= m->count; ++i) visit(m->slots[i]);
    }
  }

 private:
  friend struct checked_slots;
  friend class pool_shard_test_access;

  // The free slots of a span while the system drops their pages. They count as taken, so that no thread gets them.
  struct idle_slots {
    span* of = nullptr;
    std::size_t capacity = 0;       // of the span when they were taken
    int count = 0;                  // set bits
    std::uint64_t* bits = nullptr;  // as span::free_bits
  };
  // Takes the free slots of a partly used span that this walk has not visited and that has changed since an earlier one.
  // False: there is none.
  bool take_idle_slots(idle_slots& idle, std::uint8_t walk);
  // Puts them back. False if the span belongs to another shard by now.
  bool return_idle_slots(const idle_slots& idle, std::uint8_t walk);

  std::size_t take_used_locked(void** slot, std::size_t most) TARN_REQUIRES(depot_.lock);
  std::size_t carve_locked(void** slot, std::size_t most) TARN_REQUIRES(depot_.lock);
  // Updates the figures that other threads read without the lock.
  void note_change_locked() TARN_REQUIRES(depot_.lock);
  // Last step of removing a span (or null): the state becomes `purging`.
  span* detach_locked(span* s) TARN_REQUIRES(depot_.lock);
  // Adds `bytes`, which may be negative, to the bytes of empty spans.
  void account_spare_locked(std::ptrdiff_t bytes) TARN_REQUIRES(depot_.lock);

  pool_shared& pool_;
  const unsigned index_;  // among the pool's shards
  object_depot depot_;    // its empty magazines are of the pool's greatest length
  span_list full_ TARN_GUARDED_BY(depot_.lock);
  span_list fresh_ TARN_GUARDED_BY(depot_.lock);
  span* carving_ TARN_GUARDED_BY(depot_.lock) = nullptr;
  // These atomics are written under the depot's lock, and read without it.
  std::atomic<std::size_t> spare_bytes_{0};  // of empty spans
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> free_hint_{0};
  std::atomic<std::size_t> most_while_draining_{0};
};

inline void pool_shard::validate_locked() const {
  depot_.validate_locked();
  full_.validate();
  fresh_.validate();
  std::size_t taken = 0;
  std::size_t spare = 0;
  for (const span* s = full_.front(); s != nullptr; s = s->next) {
    TARN_INVARIANT("pool_shard", this, s->free_objects == 0 && s->list == object_depot::no_list);
  }
  for (const span* s = fresh_.front(); s != nullptr; s = s->next)
    TARN_INVARIANT("pool_shard", this, s->capacity == 0);
  for_each_span_locked([&, carving = carving_](const span& s) {
    TARN_INVARIANT("pool_shard", this, s.owner.load(std::memory_order_relaxed) == this);
    TARN_INVARIANT("pool_shard", this, s.capacity == pool_.slots_in(&s) || s.capacity == 0 || &s == carving);
    objects::validate(&s);
    taken += std::size_t{s.capacity} - s.free_objects;
  });
  depot_.for_each_spare([&](const span& s) { spare += s.bytes(); });
  TARN_INVARIANT("pool_shard", this, depot_.taken() == taken);
  TARN_INVARIANT("pool_shard", this, spare_bytes() == spare);
}

}  // namespace tarn
