// SPDX-License-Identifier: MIT
// object_depot: what all threads share of one size class: full magazines for hand-over, and the class's spans by how
// many free objects they have.
//
// Owner: central. Thread safety: everything is guarded by its lock; sections are short and call nothing.
// Invariants:
//   - full_count is the length of full; as who gives looks at it before taking the lock, it may pass the class's limit
//     by as many as give at once;
//   - a span without free objects is in no list, one with free_objects == capacity in spare, any other in
//     partial[list_of(span)]; span::list says which;
//   - bit b of `filled` is set exactly if partial[b] is not empty;
//   - span::least_in_list and most_in_list bound the free objects that the span may have in its list;
//   - slots and free_slots are the sums of capacity and free_objects over the spans that are not spare;
//   - the low marks are the least counts since the last period of decay.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "central/magazine.hpp"
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

// What a walk says of a span: this is one; not this one; all from here on were seen before.
enum class walk_step : std::uint8_t { found, next, list_done };

class alignas(separation) object_depot {
 public:
  // Spans are told apart by eighths of their capacity, the fullest first.
  static constexpr unsigned partial_lists = 8;
  static constexpr std::uint8_t no_list = 255;
  static constexpr std::uint8_t spare_list = partial_lists;

  // Less than this lying about in one class is left alone.
  static constexpr std::size_t drain_from = 512 * kib;
  // The same for dividing the class's spans into grains.
  static constexpr std::size_t sparse_from = 64 * kib;

  constexpr object_depot() = default;

  os::mutex lock{os::lock_rank::depot};
  depot_counters counters;

  // Set while a good part of the class's memory lies free in spans that are partly used. Caches then keep
  // next to nothing, so that what is freed goes back to its span and what is taken comes from the fullest
  // one: reuse inside a magazine would keep every span as sparse as it is. Written under the lock.
  std::atomic<bool> draining{false};

  // Set while spans of the class may be divided into grains (central_grains.cpp). Guarded by the lock.
  bool sparse = false;

  // Full magazines. The count is written under the lock, and read without it for a first look.
  std::atomic<std::uint32_t> full_count{0};
  std::uint32_t full_low = 0;
  magazine* full = nullptr;

  // Written under the lock, and read without it for a first look.
  std::atomic<std::uint32_t> spare_count{0};
  std::uint32_t spare_low = 0;

  void push_full(magazine* m) {
    m->next = full;
    full = m;
    full_count.store(full_count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  magazine* pop_full() {
    magazine* m = full;
    if (m == nullptr) return nullptr;
    full = m->next;
    const std::uint32_t left = full_count.load(std::memory_order_relaxed) - 1;
    full_count.store(left, std::memory_order_relaxed);
    full_low = left < full_low ? left : full_low;
    return m;
  }

  // The span to take objects from: the fullest of those that are partly used, else a spare one; null if none.
  [[nodiscard]] span* best() const {
    return filled_ != 0 ? partial_[std::countr_zero(filled_)].front() : spare_.front();
  }

  // A new span, all of it free.
  void add(span* s) {
    s->free_objects = s->capacity;
    link(s, spare_list);
  }

  // A spare span, else one with the most free objects; null if there is none.
  [[nodiscard]] span* most_free() const {
    if (!spare_.empty() || filled_ == 0) return spare_.front();
    return partial_[std::bit_width(filled_) - 1].front();
  }
  // A span that remove() has taken out of another depot, some of it free.
  void adopt(span* s) {
    const std::uint8_t target = list_of(s);
    if (target != spare_list) {
      slots_ += s->capacity;
      free_slots_ += s->free_objects;
    }
    link(s, target);
  }

  // A span has `change` free objects more. It moves to the list that it belongs in; true if that is `spare`.
  bool change_free_count(span* s, int change) {
    s->free_objects = static_cast<std::uint16_t>(s->free_objects + change);
    if (TARN_LIKELY(s->free_objects >= s->least_in_list && s->free_objects <= s->most_in_list)) {
      free_slots_ += s->list != spare_list ? change : 0;
      return false;
    }
    const std::uint8_t target = list_of(s);
    // Spare spans are whole and go to whoever wants them: they count neither as free nor as capacity.
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

  // The same in two steps, for many spans with a free object more: where the first is true, the span stays in its list
  // and the object is accounted for in the span; all such objects together are then told to the second.
  static bool try_add_free_in_place(span* s) {
    if (TARN_UNLIKELY(s->free_objects >= s->most_in_list)) return false;
    ++s->free_objects;
    return true;
  }
  void add_free_slots(std::size_t count) { free_slots_ += static_cast<std::int64_t>(count); }

  // A span that is not spare has got `more` objects, none of them free.
  void extend(span* s, std::size_t more) {
    slots_ += static_cast<std::int64_t>(more);
    unlink(s);
    s->capacity = static_cast<std::uint16_t>(s->capacity + more);
    link(s, list_of(s));
  }

  // A partly used span that visit(span) is true of, from the back of each list; what is looked at moves to the front, so
  // that a walk that marks what it has seen ends. Null when there is none.
  template <class Visit>
  span* find_from_back(Visit visit) {
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

  // The partly used span with the most free objects, or null.
  [[nodiscard]] span* sparsest() const {
    return filled_ != 0 ? partial_[std::bit_width(filled_) - 1].front() : nullptr;
  }

  // Calls visit(span) for partly used spans, the fullest first, at most `looks` of each list, until it says false. visit()
  // may call change_free_count() for the span that it is given. Lists that seem to have no span with `least` free objects are passed
  // over.
  template <class Visit>
  void for_each_partial(std::size_t least, std::size_t looks, Visit visit) {
    for (span_list& list : partial_) {
      if (list.empty() || list.front()->most_in_list < least) continue;
      std::size_t left = looks;
      for (span *s = list.front(), *next = nullptr; s != nullptr && left-- != 0; s = next) {
        next = s->next;
        if (!visit(s)) return;
      }
    }
  }

  // Takes a span out for good, whatever of it is in use.
  void remove(span* s) {
    if (s->list != spare_list) {
      slots_ -= s->capacity;
      free_slots_ -= s->free_objects;
    }
    unlink(s);
  }

  // Of the spans that are not spare.
  [[nodiscard]] std::int64_t free_slots() const { return free_slots_; }
  // Objects of the spans that are not spare which are in magazines or in use.
  [[nodiscard]] std::size_t taken() const { return static_cast<std::size_t>(slots_ - free_slots_); }

  // Decides whether the class is draining, after counts have changed. True if it has just begun to.
  bool review(std::size_t object_size) {
    const std::int64_t idle =
        free_slots_ * 8 > slots_ ? free_slots_ * static_cast<std::int64_t>(object_size) : 0;
    sparse = idle > static_cast<std::int64_t>(sparse_from);
    const bool drains = idle > static_cast<std::int64_t>(drain_from);
    if (draining.load(std::memory_order_relaxed) == drains) return false;
    draining.store(drains, std::memory_order_relaxed);
    return drains;
  }

  // Takes a spare span out for good.
  span* take_spare_span() {
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
    // The free objects f with list <= f * partial_lists / capacity < list + 1, and neither none nor all.
    const unsigned capacity = s->capacity;
    const unsigned least = (list * capacity + partial_lists - 1) / partial_lists;
    const unsigned most = ((list + 1U) * capacity - 1) / partial_lists;
    s->least_in_list = static_cast<std::uint16_t>(least > 1 ? least : 1);
    s->most_in_list = static_cast<std::uint16_t>(most < capacity - 1 ? most : capacity - 1);
  }

  void link(span* s, std::uint8_t target) {
    s->list = target;
    set_bounds(s, target);
    if (target == no_list) return;
    if (target == spare_list) {
      spare_.push_front(s);
      spare_count.store(spare_count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    partial_[target].push_front(s);
    filled_ |= 1U << target;
  }

  void unlink(span* s) {
    const std::uint8_t from = s->list;
    s->list = no_list;
    if (from == no_list) return;
    if (from == spare_list) {
      spare_.remove(s);
      const std::uint32_t left = spare_count.load(std::memory_order_relaxed) - 1;
      spare_count.store(left, std::memory_order_relaxed);
      spare_low = left < spare_low ? left : spare_low;
      return;
    }
    partial_[from].remove(s);
    if (partial_[from].empty()) filled_ &= ~(1U << from);
  }

  // Slots of all spans that are not spare, and how many of them are free.
  std::int64_t slots_ = 0;
  std::int64_t free_slots_ = 0;
  std::uint32_t filled_ = 0;
  span_list partial_[partial_lists];
  span_list spare_;
};

}  // namespace tarn
