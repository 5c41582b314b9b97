// SPDX-License-Identifier: MIT
// object_depot: what the threads of one home, or all threads, share of one size class: full magazines for hand-over,
// and spans by how many free objects they have.
//
// Owner: central. Thread safety: guarded by its lock; the atomic members are also read without it, as hints. Critical
// sections are short and call nothing.
// Invariants:
//   - givers check full_hint() before they take the lock, so it may exceed the class's limit by the number of
//     concurrent givers, and so may the sum of full and empty magazines;
//   - a span without free objects is in no list, one with free_objects == capacity in spare, any other in
//     partial_[list_of(span)]; span::list says which;
//   - bit b of `filled_` is set exactly if partial_[b] is not empty;
//   - a span stays in its list while free_objects is in [least_in_list, most_in_list];
//   - slots_ and free_slots_ are the sums of capacity and free_objects over the spans that are not spare;
//   - slots_ - full_slots_ is the sum of capacity over the spans in partial_;
//   - spare_low.lowest() <= spare_count;
//   - a span cut into objects has as many bits set as free objects (objects.hpp).
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
#include "central/magazine_stack.hpp"
#include "central/objects.hpp"
#include "os/mutex.hpp"
#include "pages/span.hpp"

namespace tarn {

struct depot_counters {
  std::atomic<std::uint64_t> refills{0};
  std::atomic<std::uint64_t> flushes{0};
  std::atomic<std::uint64_t> exchanges{0};
  std::atomic<std::uint64_t> spans_made{0};
  std::atomic<std::uint64_t> spans_freed{0};
};

// Verdict on a span in find_from_back(): take it; skip it; stop, the rest of the list was visited in this walk.
enum class walk_step : std::uint8_t { found, next, list_done };

class alignas(separation) object_depot {
 public:
  // Partial spans are grouped by eighths of their capacity; list 0 has the fullest spans (fewest free objects).
  static constexpr unsigned partial_lists = 8;
  static constexpr std::uint8_t no_list = 255;
  static constexpr std::uint8_t spare_list = partial_lists;

  // A class with fewer idle bytes than this never drains.
  static constexpr std::size_t drain_from = 512 * kib;
  // With fewer idle bytes than this the class's spans are not divided into grains.
  static constexpr std::size_t sparse_from = 64 * kib;

  constexpr object_depot() = default;
  explicit object_depot(std::uint8_t its_home) : home(its_home) {}

  // Checks the invariants above. The spans without free objects are in no list, so slots_ has only a lower bound.
  void validate_locked() const TARN_REQUIRES(lock);

  os::mutex lock{os::lock_rank::depot};
  depot_counters counters;

  // Of the class's depots, the number of this one.
  const std::uint8_t home = 0;

  // Set while much of the class's memory is free in partial spans. Thread caches then keep almost nothing, so that a
  // freed object goes back to its span, and a request is served from the fullest span; reuse inside magazines would
  // keep every span as sparse as it is. Written under the lock.
  std::atomic<bool> draining{false};

  // Set while spans of the class may be divided into grains (central_grains.cpp).
  bool sparse TARN_GUARDED_BY(lock) = false;

  // Of the objects in spans that are not spare, the bytes of those that are free, and of the others, as of the last
  // review(); read without the lock.
  std::atomic<std::size_t> free_hint{0};
  std::atomic<std::size_t> taken_hint{0};

  // How many free slots of partial spans nobody needed, in this period of decay so far; and in the last one, less those
  // that other depots have got since.
  low_mark free_low TARN_GUARDED_BY(lock);
  std::atomic<std::uint32_t> idle_slots{0};

  // The home of the last thread that took objects out of this depot, and how often the one before was another.
  std::uint8_t last_taker TARN_GUARDED_BY(lock) = 0;
  std::uint16_t changes_of_taker TARN_GUARDED_BY(lock) = 0;

  magazine_stack full TARN_GUARDED_BY(lock);
  // The number of full magazines, read without the lock.
  [[nodiscard]] std::uint32_t full_hint() const TARN_NOT_ANALYZED { return full.count(); }
  // Empty magazines for those who leave full ones. So threads that free much and then take much need no new magazines
  // from the store, whose lock all threads share.
  magazine_stack empty TARN_GUARDED_BY(lock);
  [[nodiscard]] std::uint32_t empty_hint() const TARN_NOT_ANALYZED { return empty.count(); }

  // Spare spans. spare_count is written under the lock; callers read it without the lock as a hint.
  std::atomic<std::uint32_t> spare_count{0};
  low_mark spare_low TARN_GUARDED_BY(lock);
  // The end of the spare span that was used last (central::best_span).
  std::uintptr_t spare_end TARN_GUARDED_BY(lock) = 0;
  // How many spare spans, and objects in full magazines, it keeps beyond the limits of its class.
  adaptive_limit spare_limit;
  adaptive_limit full_limit;

  // The span to take objects from: the fullest partial span, else a spare one; null if there is none.
  [[nodiscard]] span* best() const TARN_REQUIRES(lock) {
    return filled_ != 0 ? partial_[std::countr_zero(filled_)].front() : spare_.front();
  }

  // Adds a new span, all of whose objects are free.
  void add(span* s) TARN_REQUIRES(lock) {
    s->free_objects = s->capacity;
    link(s, spare_list);
  }

  // A spare span, else sparsest(); null if there is none.
  [[nodiscard]] span* most_free() const TARN_REQUIRES(lock) {
    return spare_.empty() ? sparsest() : spare_.front();
  }
  // Adds a span that remove() has taken out of a depot.
  void adopt(span* s) TARN_REQUIRES(lock) {
    const std::uint8_t target = list_of(s);
    if (target != spare_list) {
      slots_ += s->capacity;
      free_slots_ += s->free_objects;
    }
    link(s, target);
  }

  // Adds `change` to the span's free objects and moves it to the list where it now belongs. True if it became spare.
  bool change_free_count(span* s, int change) TARN_REQUIRES(lock) {
    s->free_objects = static_cast<std::uint16_t>(s->free_objects + change);
    if (TARN_LIKELY(s->free_objects >= s->least_in_list && s->free_objects <= s->most_in_list)) {
      free_slots_ += s->list != spare_list ? change : 0;
      return false;
    }
    const std::uint8_t target = list_of(s);
    // Spare spans may go to any class, so slots_ and free_slots_ do not include them.
    if (s->list != spare_list) {
      slots_ -= target == spare_list ? s->capacity : 0;
      free_slots_ += target == spare_list ? change - s->free_objects : change;
    } else if (target != spare_list) {
      slots_ += s->capacity;
      free_slots_ += s->free_objects;
    }
    unlink(s);
    link(s, target);
    return target == spare_list;
  }

  // change_free_count(s, 1) in two steps, for many objects. The first returns true if the span stays in its list; it
  // has then counted the object in the span, and add_free_slots() must be told the number of such objects.
  static bool try_add_free_in_place(span* s) {
    if (TARN_UNLIKELY(s->free_objects >= s->most_in_list)) return false;
    ++s->free_objects;
    return true;
  }
  void add_free_slots(std::size_t count) TARN_REQUIRES(lock) {
    free_slots_ += static_cast<std::int64_t>(count);
  }

  // Raises the capacity of a span by `more` objects, none of them free. A spare span becomes a partial one.
  void extend(span* s, std::size_t more) TARN_REQUIRES(lock) {
    remove(s);
    s->capacity = static_cast<std::uint16_t>(s->capacity + more);
    adopt(s);
  }

  // The first partial span for which visit() says `found`, from the back of each list. Visited spans move to the front,
  // so a walk ends if visit() marks spans and says `list_done` for a marked one. Null: none.
  template <class Visit>
  span* find_from_back(Visit visit) TARN_REQUIRES(lock) {
    for (span_list& list : partial_) {
      for (span* s = list.back(); s != nullptr; s = list.back()) {
        const walk_step step = visit(s);
        if (step == walk_step::list_done) break;
        list.remove(s);
        list.push_front(s);
        if (step == walk_step::found) return s;
      }
    }
    return nullptr;
  }

  // The first partial span for which visit(span) is true, of those with at least `eighths` of their objects free, the
  // emptiest first; at most `looks` of each list are visited. Visited spans move to the back, where they are used last
  // and looked at last. Null: none.
  template <class Visit>
  span* find_sparse(unsigned eighths, std::size_t looks, Visit visit) TARN_REQUIRES(lock) {
    for (unsigned i = partial_lists; i-- > eighths;) {
      span_list& list = partial_[i];
      for (std::size_t left = looks; left != 0 && !list.empty(); --left) {
        span* const s = list.front();
        if (visit(s)) return s;
        list.remove(s);
        list.push_back(s);
      }
    }
    return nullptr;
  }

  // Of the partial spans of its list, the span is used last and looked at last.
  void put_last(span* s) TARN_REQUIRES(lock) {
    if (s->list >= partial_lists) return;
    partial_[s->list].remove(s);
    partial_[s->list].push_back(s);
  }

  // A partial span of the list with the most free objects, or null.
  [[nodiscard]] span* sparsest() const TARN_REQUIRES(lock) {
    return filled_ != 0 ? partial_[std::bit_width(filled_) - 1].front() : nullptr;
  }

  // Calls visit(span) for partial spans with at least `eighths` of their objects free, the emptiest first, at most
  // `looks` of each list, until it returns false. visit() may call change_free_count() for its span. Skips lists in
  // which no span can have `least` free objects, judged by the capacity of the first span in the list. (Not analyzed:
  // visit() requires the same lock, which the analysis does not see.)
  template <class Visit>
  void for_each_partial(unsigned eighths, std::size_t least, std::size_t looks, Visit visit)
      TARN_REQUIRES(lock) TARN_NOT_ANALYZED {
    for (unsigned i = partial_lists; i-- > eighths;) {
      span_list& list = partial_[i];
      if (list.empty() || list.front()->most_in_list < least) continue;
      std::size_t left = looks;
      for (span *s = list.front(), *next = nullptr; s != nullptr && left-- != 0; s = next) {
        next = s->next;
        if (!visit(s)) return;
      }
    }
  }

  // Removes a span from the depot, whatever its state.
  void remove(span* s) TARN_REQUIRES(lock) {
    if (s->list != spare_list) {
      slots_ -= s->capacity;
      free_slots_ -= s->free_objects;
    }
    unlink(s);
  }

  // Free objects of the spans that are not spare.
  [[nodiscard]] std::int64_t free_slots() const TARN_REQUIRES(lock) { return free_slots_; }
  // Objects of the spans that are not spare that are live or in magazines.
  [[nodiscard]] std::size_t taken() const TARN_REQUIRES(lock) {
    return static_cast<std::size_t>(slots_ - free_slots_);
  }

  // Objects of all spans that are not spare, and of those of them that have free objects.
  [[nodiscard]] std::size_t slots() const TARN_REQUIRES(lock) { return static_cast<std::size_t>(slots_); }
  [[nodiscard]] std::size_t partial_slots() const TARN_REQUIRES(lock) {
    return static_cast<std::size_t>(slots_ - full_slots_);
  }

  // Calls visit(span) for every span with free objects. For checks.
  template <class Visit>
  void for_each_free(Visit visit) const TARN_REQUIRES(lock) {
    for (const span_list& list : partial_) {
      for (const span* s = list.front(); s != nullptr; s = s->next) visit(*s);
    }
    for_each_spare(visit);
  }
  // The same for every spare span.
  template <class Visit>
  void for_each_spare(Visit visit) const TARN_REQUIRES(lock) {
    for (const span* s = spare_.front(); s != nullptr; s = s->next) visit(*s);
  }

  // Updates `draining` and `sparse` after counts have changed. `one_of_several`: the class has other depots. Threads
  // that use objects in turn then leave free objects behind for each other, so only those that nobody needed for a
  // period may be divided. True if the class has just begun to drain.
  bool review(std::size_t object_size, bool one_of_several = false) TARN_REQUIRES(lock) {
    const auto size = static_cast<std::int64_t>(object_size);
    free_hint.store(static_cast<std::size_t>(free_slots_ * size), std::memory_order_relaxed);
    taken_hint.store(taken() * object_size, std::memory_order_relaxed);
    free_low.note(static_cast<std::uint32_t>(free_slots_));
    const std::int64_t idle = free_slots_ * 8 > slots_ ? free_slots_ * size : 0;
    const std::int64_t unneeded =
        one_of_several ? std::min(idle, idle_slots.load(std::memory_order_relaxed) * size) : idle;
    sparse = free_slots_ * 2 >= slots_ && unneeded > static_cast<std::int64_t>(sparse_from);
    const bool drains = idle > static_cast<std::int64_t>(drain_from);
    if (draining.load(std::memory_order_relaxed) == drains) return false;
    draining.store(drains, std::memory_order_relaxed);
    return drains;
  }

  // Ends a period of decay.
  void end_period() TARN_REQUIRES(lock) {
    idle_slots.store(free_low.end_period(static_cast<std::uint32_t>(free_slots_)), std::memory_order_relaxed);
  }

  // Removes a spare span from the depot; null if there is none.
  span* take_spare_span() TARN_REQUIRES(lock) {
    span* s = spare_.front();
    if (s != nullptr) unlink(s);
    return s;
  }

 private:
  static std::uint8_t list_of(const span* s) {
    if (s->free_objects == 0) return no_list;
    if (s->free_objects == s->capacity) return spare_list;
    return static_cast<std::uint8_t>(unsigned{s->free_objects} * partial_lists / s->capacity);
  }

  static void set_bounds(span* s, std::uint8_t list) {
    if (list >= partial_lists) {
      s->least_in_list = s->most_in_list = s->free_objects;
      return;
    }
    // The free counts f with list <= f * partial_lists / capacity < list + 1, except 0 and capacity.
    const unsigned capacity = s->capacity;
    const unsigned least = (list * capacity + partial_lists - 1) / partial_lists;
    const unsigned most = ((list + 1U) * capacity - 1) / partial_lists;
    s->least_in_list = static_cast<std::uint16_t>(least > 1 ? least : 1);
    s->most_in_list = static_cast<std::uint16_t>(most < capacity - 1 ? most : capacity - 1);
  }

  void link(span* s, std::uint8_t target) TARN_REQUIRES(lock) {
    s->list = target;
    set_bounds(s, target);
    if (target == no_list) {
      full_slots_ += s->capacity;
      return;
    }
    if (target == spare_list) {
      spare_.push_front(s);
      spare_count.store(spare_count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    partial_[target].push_front(s);
    filled_ |= 1U << target;
  }

  void unlink(span* s) TARN_REQUIRES(lock) {
    const std::uint8_t from = s->list;
    s->list = no_list;
    if (from == no_list) {
      full_slots_ -= s->capacity;
      return;
    }
    if (from == spare_list) {
      spare_.remove(s);
      const std::uint32_t left = spare_count.load(std::memory_order_relaxed) - 1;
      spare_count.store(left, std::memory_order_relaxed);
      spare_low.note(left);
      return;
    }
    partial_[from].remove(s);
    if (partial_[from].empty()) filled_ &= ~(1U << from);
  }

  // Objects of all spans that are not spare, and how many of them are free.
  std::int64_t slots_ TARN_GUARDED_BY(lock) = 0;
  std::int64_t free_slots_ TARN_GUARDED_BY(lock) = 0;
  std::int64_t full_slots_ TARN_GUARDED_BY(lock) = 0;
  std::uint32_t filled_ TARN_GUARDED_BY(lock) = 0;
  span_list partial_[partial_lists] TARN_GUARDED_BY(lock);
  span_list spare_ TARN_GUARDED_BY(lock);
};

inline void object_depot::validate_locked() const {
  std::int64_t slots = 0;
  std::int64_t free_slots = 0;
  for (unsigned i = 0; i < partial_lists; ++i) {
    partial_[i].validate();
    TARN_INVARIANT("object_depot", this, (filled_ >> i & 1U) == (partial_[i].empty() ? 0 : 1));
    for (const span* s = partial_[i].front(); s != nullptr; s = s->next) {
      TARN_INVARIANT("object_depot", this, s->list == i && list_of(s) == i);
      TARN_INVARIANT("object_depot", this,
                     s->least_in_list <= s->free_objects && s->free_objects <= s->most_in_list);
      if (s->size_class != 0) objects::validate(s);
      slots += s->capacity;
      free_slots += s->free_objects;
    }
  }
  TARN_INVARIANT("object_depot", this, slots_ >= slots);
  TARN_INVARIANT("object_depot", this, slots_ - full_slots_ == slots);
  TARN_INVARIANT("object_depot", this, free_slots_ == free_slots);
  std::size_t spares = 0;
  spare_.validate();
  for (const span* s = spare_.front(); s != nullptr; s = s->next, ++spares) {
    TARN_INVARIANT("object_depot", this, s->list == spare_list && s->free_objects == s->capacity);
    if (s->size_class != 0) objects::validate(s);
  }
  const std::uint32_t counted_spares = spare_count.load(std::memory_order_relaxed);
  TARN_INVARIANT("object_depot", this, counted_spares == spares);
  TARN_INVARIANT("object_depot", this, spare_low.lowest() <= counted_spares);
  full.validate();
  empty.validate();
}

}  // namespace tarn
