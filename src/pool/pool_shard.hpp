// SPDX-License-Identifier: MIT
// pool_shard: a part of a pool that a few threads share: spans of its own, and full magazines for hand-over.
//
// A slot goes back to the shard that its span belongs to, whoever frees it, so what one thread makes and another ends
// does not pile up on the other's side. A shard whose own slots are used up takes from those that have no thread any
// more or hold plenty, before it asks for fresh memory. It takes whole spans, and leaves the others theirs: threads whose
// slots lie in each other's spans write to each other's cache lines for ever after.
//
// A pool's slots differ from malloc's objects in three ways. They carry no mark while they are free (a checked pool
// keeps its own books: checked_slots.cpp). Spans grow with the pool, up to 64 KiB, so that few of them have to be found
// again for objects that come back in random order. And fresh slots are carved one after the other, when used ones
// have run out, so that memory is touched only as it is needed.
//
// Thread safety: all members may be called by any thread. No lock is held across a system call.
// Invariants, whenever the lock of the depot is free:
//   - every span of the shard is in exactly one of: fresh_ (no slot carved yet), full_ (no slot free), the depot's lists;
//   - at most one span outside of fresh_ is not carved to its end: carving_;
//   - depot_.taken() = the shard's slots in the program's hands, in bins and in full magazines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "central/magazine.hpp"
#include "central/object_depot.hpp"
#include "pages/span.hpp"
#include "pool/slot_layout.hpp"

namespace tarn {

class pool_core;

class alignas(separation) pool_shard {
 public:
  pool_shard(pool_core& pool, unsigned index) : pool_(pool), index_(index) {}

  [[nodiscard]] pool_core& pool() const { return pool_; }
  // The shard whose span the address lies in, or null.
  static pool_shard* owner_of(const void* address);

  enum class source : std::uint8_t { used, fresh };
  // Fills the empty magazine from the top down with at most `most` slots, the lowest on top: used ones; or fresh ones of
  // the spans at hand. Returns their number; whoever calls moves them down.
  std::size_t take(magazine* m, std::size_t most, source from);

  // Puts back those of the slots that are this shard's; owners[i] is the span of freed[i]. What is not goes to the
  // front of `others`, its spans to the front of `owners`; returns how many. Aborts on a slot that is free already.
  std::size_t put(void* const* freed, span** owners, std::size_t count, void** others);

  // A full magazine that some thread has left; null if there is none.
  magazine* take_full();
  // Leaves one, and gets an empty one for it, or null. False when there are enough.
  bool give_full(magazine* m, magazine*& empty);

  // An empty magazine for at least so many slots, of those left here if there is one; null when there is no memory. That
  // each shard keeps its own saves threads the way to a lock which all of them share.
  magazine* take_empty(std::size_t slots);
  void leave_empty(magazine* m);
  // Frees those that nobody has wanted for a period, or `all`.
  void free_idle_empties(bool all);

  // As object_depot::draining: a good part of the shard's memory lies free in spans that are partly used.
  [[nodiscard]] bool draining() const { return depot_.draining.load(std::memory_order_relaxed); }
  // What a bin should hold at most meanwhile: less and less as the shard runs empty, as every slot in a bin may be all
  // that keeps a span from going back.
  [[nodiscard]] std::size_t most_while_draining() const {
    return most_while_draining_.load(std::memory_order_relaxed);
  }
  // Other shards may take of what is free here.
  [[nodiscard]] bool can_spare() const;
  // Free slots in spans, as of a moment ago.
  [[nodiscard]] std::size_t free_hint() const { return free_hint_.load(std::memory_order_relaxed); }

  void add_span(span* s);
  // Gives the other shard a span with free slots: a wholly free one, or the one with most of them. False if there is
  // none.
  bool move_span_to(pool_shard& other);
  // A span of which nothing is carved, taken out; null if there is none.
  span* take_fresh_span();
  // Slots that can be handed out without another span.
  [[nodiscard]] std::size_t ready();

  // Magazines that nobody has wanted for a period, or `all`, as a chain.
  magazine* take_idle_magazines(bool all);
  // An empty span, taken out, if more than `keep` bytes are empty; with 0, a fresh one too. Null if there is none.
  span* take_spare(std::size_t keep);
  // Any span, whatever is in use in it. Null when there is none left.
  span* take_any();

  // Gives back what is behind the free pages of partly used spans. They stay free, and are backed again when they are
  // next written to. `walk` differs from one walk to the next. Calls the system.
  void purge_idle_pages(std::uint8_t walk);

  [[nodiscard]] std::size_t spare_bytes() const { return spare_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t taken();
  [[nodiscard]] std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t waiting();  // slots in full magazines

  // Bins assigned to the shard; written under the registry's lock.
  std::atomic<unsigned> bins{0};

  void walk_locks(const os::lock_walk& walk) { walk.visit(depot_.lock); }

 private:
  friend struct checked_slots;

  magazine* pop_empty_locked();
  std::size_t take_used_locked(void** slot, std::size_t most);
  std::size_t carve_locked(void** slot, std::size_t most);
  void note_change_locked();
  static void purge_runs(const span* s, const std::uint64_t* bits, const slot_layout& layout);
  span* part_locked(span* s);
  void account_spare_locked(std::ptrdiff_t bytes);

  pool_core& pool_;
  const unsigned index_;  // among the pool's shards
  object_depot depot_;
  span_list full_;  // guarded by the depot's lock, as all below
  span_list fresh_;
  span* carving_ = nullptr;
  magazine* empties_ = nullptr;                // as long as the pool's magazines can be
  std::uint32_t empties_low_ = 0;              // the fewest since the last free_idle_empties()
  std::atomic<std::uint32_t> empty_count_{0};  // written under the lock
  std::atomic<std::size_t> spare_bytes_{0};    // written under the lock, as those below
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> free_hint_{0};
  std::atomic<std::size_t> most_while_draining_{0};
};

}  // namespace tarn
