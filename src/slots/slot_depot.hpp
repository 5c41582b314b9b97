// SPDX-License-Identifier: MIT
// slot_depot: what some threads share of one slot class: spans, by how many free slots they have, and magazines that wait.
// A class of malloc has one, or one for each home (docs/design/0026); a typed pool has one for each of its shards
// (fronts/pools/pool_shard.hpp).
//
// A slot goes back to the depot of its span, whichever thread frees it. Fronts differ in what they do with a span; that
// is in a Front, whose functions the compiler puts in place. All of them are called under the depot's lock:
//   next(depot, is_first)      the span to take slots from; null: none
//   open(s)                    slots of the span are about to be taken
//   at(s, index)               the address of a slot
//   taken(s, last)             slots of the span have been taken, the last of them at this index
//   elsewhere(s, slot)         null: the slot lies in this span, and the span belongs to the depot; else the span to pass
//                              on to those who look further
//   set_free(s, slot)          sets the bits of the slot; returns how many. 0: an error, which the front keeps
//
// Thread safety: guarded by its lock; the atomic members are also read without it, as hints. Critical sections are short
// and call nothing.
// Invariants: those of its parts (validate_locked()). Givers check full_hint() before they take the lock, so it may exceed
// the limit by the number of concurrent givers, and so may the sum of full and empty magazines.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/adaptive_limit.hpp"
#include "base/compiler.hpp"
#include "base/low_mark.hpp"
#include "base/units.hpp"
#include "os/memory.hpp"
#include "os/mutex.hpp"
#include "pages/span.hpp"
#include "slots/magazine_stack.hpp"
#include "slots/objects.hpp"
#include "slots/slot_class.hpp"
#include "slots/slot_spans.hpp"

namespace tarn {

struct depot_counters {
  std::atomic<std::uint64_t> refills{0};
  std::atomic<std::uint64_t> flushes{0};
  std::atomic<std::uint64_t> exchanges{0};
  std::atomic<std::uint64_t> spans_made{0};
  std::atomic<std::uint64_t> spans_freed{0};
};

// The free slots of a span while the system drops their pages. They count as taken, so that no thread gets them.
struct held_slots {
  held_slots(std::size_t slot_size, std::uint64_t* room) : size(slot_size), bits(room) {}

  span* of = nullptr;
  std::size_t capacity = 0;   // of the span when they were taken
  const std::size_t size;     // of a slot
  std::uintptr_t first = 0;   // of the first slot of the span
  std::size_t backed = 0;     // the slots behind have never been used, and no page was prepared for them
  std::uint64_t* const bits;  // as span::free_bits; room for the longest span

  [[nodiscard]] bool has(std::size_t i) const { return objects::is_set(bits, i); }
  [[nodiscard]] std::size_t count() const { return objects::count(bits, capacity); }
  // Calls visit(range) for each run of whole system pages in them, or before the first slot of the span.
  template <class Visit>
  void for_each_page_run(Visit visit) const {
    for (std::size_t i = 0; i < backed; ++i) {
      const std::size_t begin = i;
      while (i < backed && has(i)) ++i;
      const os::address_range run =
          os::whole_units(begin == 0 ? of->start : first + begin * size, first + i * size);
      if (i != begin && !run.empty()) visit(run);
    }
  }
};

class alignas(separation) slot_depot {
 public:
  // A class with fewer idle bytes than this never drains.
  static constexpr std::size_t drain_from = 512 * kib;
  // With fewer idle bytes than this the class's spans are not divided into grains.
  static constexpr std::size_t sparse_from = 64 * kib;
  // Slots are taken from at most this many spans at once.
  static constexpr std::size_t spans_per_take = 16;

  constexpr slot_depot() = default;
  explicit slot_depot(std::uint8_t its_number, bool lists_full = false)
      : home(its_number), spans(lists_full) {}

  void validate_locked() const TARN_REQUIRES(lock) {
    spans.validate();
    full.validate();
    empty.validate();
  }

  os::mutex lock{os::lock_rank::depot};
  depot_counters counters;

  // Of the class's depots, the number of this one; locks of several are taken in this order.
  const std::uint8_t home = 0;

  // Set while much of the class's memory is free in partial spans. Bins then keep almost nothing, so that a freed slot
  // goes back to its span, and a request is served from the fullest span; reuse inside magazines would keep every span as
  // sparse as it is. Changes under the lock.
  [[nodiscard]] bool draining() const { return draining_.load(std::memory_order_relaxed); }

  // Set while spans of the class may be divided into grains (grains.hpp).
  bool sparse TARN_GUARDED_BY(lock) = false;
  // Of the free slots, those that a forked child has had since the fork, while its parent lives: they are set aside
  // (slot_spans.hpp). To take them, to divide their spans, or to drop their pages would save no memory, which is shared with the
  // parent, and each write to them or to their structures copies a page.
  std::uint32_t inherited TARN_GUARDED_BY(lock) = 0;

  // Of the slots in spans that are not spare, the bytes of those that are free, and of the others, as of the last
  // note_counts(); read without the lock.
  std::atomic<std::size_t> free_hint{0};
  std::atomic<std::size_t> taken_hint{0};

  // How many free slots of partial spans nobody needed, in this period of decay so far; and in the last one, less those
  // that other depots have got since.
  low_mark free_low TARN_GUARDED_BY(lock);
  std::atomic<std::uint32_t> idle_slots{0};

  // The home of the last thread that took slots out of this depot, and how often the one before was another.
  std::uint8_t last_taker TARN_GUARDED_BY(lock) = 0;
  std::uint16_t changes_of_taker TARN_GUARDED_BY(lock) = 0;

  magazine_stack full TARN_GUARDED_BY(lock);
  // Empty magazines for those who leave full ones. So threads that free much and then take much need no new magazines
  // from a store whose lock all threads share.
  magazine_stack empty TARN_GUARDED_BY(lock);
  // The end of the spare span that was used last (class_depots::best_span).
  std::uintptr_t spare_end TARN_GUARDED_BY(lock) = 0;
  // How many spare spans, and slots in full magazines, it keeps beyond the limits of its class.
  adaptive_limit spare_limit;
  adaptive_limit full_limit;
  slot_spans spans TARN_GUARDED_BY(lock);

  // Read without the lock.
  [[nodiscard]] std::uint32_t full_hint() const TARN_NOT_ANALYZED { return full.count(); }
  [[nodiscard]] std::uint32_t empty_hint() const TARN_NOT_ANALYZED { return empty.count(); }
  [[nodiscard]] std::uint32_t spare_count() const TARN_NOT_ANALYZED { return spans.spare_count(); }
  [[nodiscard]] std::size_t spare_bytes() const TARN_NOT_ANALYZED { return spans.spare_bytes(); }

  // ---- slots ----

  // Takes at most `most` free slots out of spans, the fullest span first, so that the others become empty and can serve
  // other classes; a spare span only if nothing else has been found. Returns their number. They lie from `top` down, the
  // one at the lowest address of the first span on top.
  template <class Front>
  TARN_ALWAYS_INLINE std::size_t take(Front& front, void** top, std::size_t most) TARN_REQUIRES(lock) {
    std::size_t found = 0;
    for (std::size_t visited = 0; found < most && visited < spans_per_take; ++visited) {
      span* const s = front.next(*this, found == 0);
      if (s == nullptr || (slot_spans::is_spare(s) && found != 0)) break;
      front.open(s);
      std::size_t last = 0;
      const std::size_t count = objects::take_free(s, most - found, [&](std::size_t index) {
        last = index;
        *top-- = front.at(s, index);
      });
      front.taken(s, last);
      found += count;
      spans.change_free_count(s, -static_cast<int>(count));
    }
    return found;
  }

  // Puts those slots back that belong to this depot; owners[i] is the span of freed[i]. Moves the others to the front of
  // `others` (which may be `freed`), what they lie in to the front of `owners`, and returns their number.
  template <class Front>
  TARN_ALWAYS_INLINE std::size_t put(Front& front, void* const* freed, span** owners, std::size_t count,
                                     void** others) TARN_REQUIRES(lock) {
    std::size_t left = 0;
    std::size_t unmoved = 0;
    for (std::size_t i = 0; i < count; ++i) {
      span* const s = owners[i];
      void* const slot = freed[i];
      if (span* const other = front.elsewhere(s, slot); TARN_UNLIKELY(other != nullptr)) {
        owners[left] = other;
        others[left++] = slot;
        continue;
      }
      const std::size_t length = front.set_free(s, slot);
      if (TARN_LIKELY(length == 1 && slot_spans::try_add_free_in_place(s))) {
        ++unmoved;
      } else if (TARN_LIKELY(length != 0)) {
        spans.change_free_count(s, static_cast<int>(length));
      }
    }
    spans.add_free_slots(unmoved);
    return left;
  }

  // Moves a span with free slots to another depot of the class: a spare one, else one with many; then calls moved(span),
  // under the locks of both. False: there is none, or may(span) is false. (Not analyzed: which lock of the two is which
  // is known at run time only.)
  template <class May, class Moved>
  bool move_span_to(slot_depot& other, May may, Moved moved) TARN_NOT_ANALYZED {
    slot_depot& first = home < other.home ? *this : other;
    slot_depot& second = home < other.home ? other : *this;
    os::lock_guard first_guard(first.lock, first);
    os::lock_guard second_guard(second.lock, second);
    span* const s = spans.most_free();
    if (s == nullptr || !may(s)) return false;
    spans.remove(s);
    // release: partner of the acquire where a front looks for the depot of a slot, without the lock.
    s->owner.store(&other, std::memory_order_release);
    other.spans.adopt(s);
    moved(s);
    return true;
  }

  // ---- figures ----

  // What other threads read without the lock, after counts have changed.
  void note_counts(std::size_t slot_size) TARN_REQUIRES(lock) {
    free_hint.store(spans.free_slots() * slot_size, std::memory_order_relaxed);
    taken_hint.store(spans.taken() * slot_size, std::memory_order_relaxed);
  }
  // The same, and draining() and `sparse`. `one_of_several`: the class has other depots. Threads that use slots in turn
  // then leave free ones behind for each other, so only those that nobody needed for a period may be divided. True if the
  // class has just begun to drain.
  bool review(std::size_t slot_size, bool one_of_several = false) TARN_REQUIRES(lock) {
    note_counts(slot_size);
    const std::size_t free = spans.free_slots();
    free_low.note(static_cast<std::uint32_t>(free));
    inherited = static_cast<std::uint32_t>(std::min<std::size_t>(inherited, free));
    const std::size_t own = free - inherited;
    const std::size_t idle = own * 8 > spans.slots() ? own * slot_size : 0;
    const std::size_t unneeded =
        one_of_several ? std::min(idle, idle_slots.load(std::memory_order_relaxed) * slot_size) : idle;
    sparse = own * 2 >= spans.slots() && unneeded > sparse_from;
    const bool drains = idle > drain_from;
    if (draining() == drains) return false;
    draining_.store(drains, std::memory_order_relaxed);
    return drains;
  }
  // The change of the bytes of spare spans since the last call, for the sum over its owner's depots; negative ones wrap.
  std::size_t take_spare_change() TARN_REQUIRES(lock) {
    const std::size_t before = noted_spare_bytes_;
    noted_spare_bytes_ = spans.spare_bytes();
    return noted_spare_bytes_ - before;
  }
  // Ends a period of decay.
  void end_period() TARN_REQUIRES(lock) {
    idle_slots.store(free_low.end_period(static_cast<std::uint32_t>(spans.free_slots())),
                     std::memory_order_relaxed);
  }

  // ---- magazines ----

  // A full magazine that a thread has handed over; null: there is none.
  magazine* take_full() {
    // Read without the lock, here and below: a stale value costs a refill, a flush, or a magazine above the limit.
    if (full_hint() == 0) return nullptr;
    os::lock_guard guard(lock, *this);
    return pop_full();
  }
  magazine* pop_full() TARN_REQUIRES(lock) {
    magazine* const m = full.pop();
    if (m != nullptr) counters.exchanges.fetch_add(1, std::memory_order_relaxed);
    return m;
  }
  // Leaves a full magazine for other threads, of which at most `most` wait. Stores an empty one in *empty_one, or null,
  // unless the pointer is null. False, and nothing is done: there are enough.
  bool give_full(magazine* m, std::size_t most, magazine** empty_one) {
    if (full_hint() >= most || draining()) return false;
    os::lock_guard guard(lock, *this);
    if (empty_one != nullptr) *empty_one = empty.pop();
    full.push(m);
    counters.exchanges.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  // An empty magazine that somebody has left; null: there is none.
  magazine* take_empty() {
    if (empty_hint() == 0) return nullptr;
    os::lock_guard guard(lock, *this);
    return empty.pop();
  }
  void leave_empty(magazine* m) {
    m->count = 0;
    os::lock_guard guard(lock, *this);
    empty.push(m);
  }
  // Calls end(magazine), without the lock, for each empty one that nobody needed in a period of decay, which ends, or for
  // all. One at a time: a forked child loses what another thread holds at the fork.
  template <class End>
  void end_idle_empties(bool all, End end) {
    if (empty_hint() == 0) return;
    std::uint32_t idle = 0;
    {
      os::lock_guard guard(lock, *this);
      idle = empty.end_period(all);
    }
    for (; idle != 0; --idle) {
      magazine* const m = take_empty();
      if (m == nullptr) return;
      end(m);
    }
  }
  // Slots in full magazines.
  std::size_t waiting() {
    std::size_t slots = 0;
    os::lock_guard guard(lock, *this);
    for (const magazine* m = full.first(); m != nullptr; m = m->next) slots += m->count;
    return slots;
  }

  // ---- idle pages ----

  // Drops whole system pages of free slots in spans of which at least `eighths` are free (docs/design/0038): the emptiest
  // spans first, until `looks` of a list were looked at in vain. A span with no more free slots than at the last look is
  // left alone. One span at a time, whose free slots are taken meanwhile: what this thread holds while another thread forks
  // is lost to the child. A front has
  //   goes_on()              whether to look for another span
  //   locate(held), take()   under the lock: sets where the slots of held.of begin and how many are backed; they are taken
  //   drop()                 without the lock: gives the pages to the system, then the slots back (with_owner(), put_held())
  template <class Front>
  void drop_idle_pages(Front& front, held_slots& held, unsigned eighths, std::size_t looks) {
    for (unsigned list = slot_spans::partial_lists; list-- > eighths;) {
      while (front.goes_on() && hold(front, held, list, looks)) front.drop();
    }
  }
  // Calls work(depot) under the lock of the depot that has the span, of which the caller holds slots, so that it stays.
  template <class Work>
  static void with_owner(const span* s, Work work) TARN_NOT_ANALYZED {
    for (;;) {
      // acquire: partner of the release in move_span_to().
      auto* const owner = static_cast<slot_depot*>(s->owner.load(std::memory_order_acquire));
      os::lock_guard guard(owner->lock, *owner);
      if (s->owner.load(std::memory_order_relaxed) == owner) return work(*owner);
    }
  }
  // Puts held slots back. Returns the index of one that the program has freed again meanwhile, or the capacity.
  std::size_t put_held(const held_slots& held) TARN_REQUIRES(lock) {
    span* const s = held.of;
    std::size_t twice = held.capacity;
    int count = 0;
    for (std::size_t w = 0; w < objects::words(held.capacity); ++w) {
      const std::uint64_t both = s->free_bits[w] & held.bits[w];
      if (TARN_UNLIKELY(both != 0))
        twice = w * objects::bits_per_word + static_cast<std::size_t>(std::countr_zero(both));
      count += std::popcount(held.bits[w] & ~s->free_bits[w]);
      s->free_bits[w] |= held.bits[w];
    }
    spans.change_free_count(s, count);
    s->free_when_looked = s->free_objects;
    return twice;
  }

 private:
  // Takes the free slots of a span of the list, if they fill a page. False: none is found.
  template <class Front>
  bool hold(Front& front, held_slots& held, unsigned list, std::size_t looks) {
    os::lock_guard guard(lock, *this);
    span* const found = spans.find_in_list(list, looks, [&](span* s) {
      if (s->free_objects <= s->free_when_looked) return false;
      held.of = s;
      held.capacity = s->capacity;
      std::copy_n(s->free_bits, objects::words(held.capacity), held.bits);
      front.locate(held);
      bool has_pages = false;
      held.for_each_page_run([&](const os::address_range&) { has_pages = true; });
      return has_pages;
    });
    if (found == nullptr) return false;
    std::fill_n(found->free_bits, objects::words(held.capacity), std::uint64_t{0});
    front.take();
    spans.change_free_count(found, -static_cast<int>(found->free_objects));
    return true;
  }

  std::atomic<bool> draining_{false};
  std::size_t noted_spare_bytes_ TARN_GUARDED_BY(lock) = 0;
};

}  // namespace tarn
