// SPDX-License-Identifier: MIT
// slot_spans: the spans of one depot, by how many free slots they have.
//
// Thread safety: guarded by a lock of its owner, except spare_count() and spare_bytes(), which any thread may call.
// Invariants:
//   - a span without free slots is in full_ if the owner lists such, else in no list; one whose slots are all free is in
//     spare_, any other in partial_[list_of(span)]; the lower four bits of span::list say which, the upper ones in which
//     generation it came there;
//   - a partial span of a generation before oldest_used_ is set aside, and lies behind those that are not;
//   - bit b of `filled_` is set exactly if partial_[b] has a span that is not set aside;
//   - a span stays in its list while free_objects is in [least_in_list, most_in_list];
//   - slots_ and free_slots_ are the sums of capacity and free_objects over the spans that are not spare, full_slots_ is
//     that of capacity over those without free slots;
//   - spare_count() and spare_bytes() are the number of spare spans and their bytes; spare_low_.lowest() <= spare_count();
//   - a span cut into slots has as many bits set as free slots (objects.hpp).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/low_mark.hpp"
#include "pages/span.hpp"
#include "slots/objects.hpp"

namespace tarn {

class slot_spans {
 public:
  // Partial spans are grouped by eighths of their capacity; list 0 has the fullest spans (fewest free slots).
  static constexpr unsigned partial_lists = 8;
  static constexpr std::uint8_t no_list = 15;
  static constexpr std::uint8_t spare_list = partial_lists;

  constexpr explicit slot_spans(bool lists_full = false) : lists_full_(lists_full) {}

  static bool is_spare(const span* s) { return number_of(s) == spare_list; }

  // In a forked child: no slots are taken from the partial spans, until use_all() or until their number of free slots has
  // changed by an eighth: a page that is shared with the parent would be copied for each first slot in it. Writes to no span,
  // which would copy pages, too. (After 15 generations they stay in use.)
  void set_aside() {
    if (generation_ == last_generation) return;
    oldest_used_ = ++generation_;
    filled_ = 0;
  }
  void use_all() {
    oldest_used_ = 0;
    for (unsigned i = 0; i < partial_lists; ++i) note_filled(i);
  }

  // Written under the lock; read without it as hints.
  [[nodiscard]] std::uint32_t spare_count() const { return spare_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t spare_bytes() const { return spare_bytes_.load(std::memory_order_relaxed); }
  // Ends a period of decay. Returns how many spare spans nobody needed in it.
  std::uint32_t end_period_of_spares() { return spare_low_.end_period(spare_count()); }

  // The span to take slots from: the fullest partial span, else a spare one; null if there is none.
  [[nodiscard]] span* best() const {
    return filled_ != 0 ? partial_[std::countr_zero(filled_)].front() : spare_.front();
  }
  // A partial span of the list with the most free slots, or null.
  [[nodiscard]] span* sparsest() const {
    return filled_ != 0 ? partial_[std::bit_width(filled_) - 1].front() : nullptr;
  }
  // A spare span, else sparsest(); null if there is none.
  [[nodiscard]] span* most_free() const { return spare_.empty() ? sparsest() : spare_.front(); }
  // Any of all that are listed, one without free slots first.
  [[nodiscard]] span* any() const { return full_.empty() ? best() : full_.front(); }

  // Adds a new span, or one that remove() has taken out of a depot.
  void adopt(span* s) {
    const std::uint8_t target = list_of(s);
    if (target != spare_list) {
      slots_ += s->capacity;
      free_slots_ += s->free_objects;
    }
    link(s, target);
  }
  // Removes a span from the depot, whatever its state.
  void remove(span* s) {
    if (!is_spare(s)) {
      slots_ -= s->capacity;
      free_slots_ -= s->free_objects;
    }
    unlink(s);
  }
  // Removes a spare span; null if there is none.
  span* take_spare() {
    span* const s = spare_.front();
    if (s != nullptr) unlink(s);
    return s;
  }

  // Adds `change` to the span's free slots and moves it to the list where it now belongs.
  void change_free_count(span* s, int change) {
    s->free_objects = static_cast<std::uint16_t>(s->free_objects + change);
    if (TARN_LIKELY(s->free_objects >= s->least_in_list && s->free_objects <= s->most_in_list)) {
      free_slots_ += !is_spare(s) ? change : 0;
      return;
    }
    const std::uint8_t target = list_of(s);
    // Spare spans may go to any class, so slots_ and free_slots_ do not include them.
    if (!is_spare(s)) {
      slots_ -= target == spare_list ? s->capacity : 0;
      free_slots_ += target == spare_list ? change - s->free_objects : change;
    } else if (target != spare_list) {
      slots_ += s->capacity;
      free_slots_ += s->free_objects;
    }
    unlink(s);
    link(s, target);
  }
  // change_free_count(s, 1) in two steps, for many slots. The first returns true if the span stays in its list; it has
  // then counted the slot in the span, and add_free_slots() must be told the number of such slots.
  static bool try_add_free_in_place(span* s) {
    const std::uint16_t free_before = s->free_objects;
    if (TARN_UNLIKELY(free_before >= s->most_in_list)) return false;
    s->free_objects = static_cast<std::uint16_t>(free_before + 1);
    return true;
  }
  void add_free_slots(std::size_t count) { free_slots_ += static_cast<std::int64_t>(count); }

  // Raises the capacity of a span by `more` slots, none of them free. A spare span becomes a partial one.
  void extend(span* s, std::size_t more) {
    remove(s);
    s->capacity = static_cast<std::uint16_t>(s->capacity + more);
    adopt(s);
  }

  // The first span of a partial list for which visit(span) is true; at most `looks` are visited. Spans visited in vain move to the
  // back, where they are used last and looked at last: all at once, as each write to a span copies a page in a forked child. Null:
  // none.
  template <class Visit>
  span* find_in_list(unsigned list_number, std::size_t looks, Visit visit) {
    span_list& list = partial_[list_number];
    for (span* s = list.front(); s != nullptr && !is_aside(s); s = s->next) {
      const bool is_found = looks != 0 && visit(s);
      if (is_found || looks == 0) {
        if (!is_aside(list.back())) list.rotate_to(s);
        return is_found ? s : nullptr;
      }
      --looks;
    }
    return nullptr;
  }

  // Of the partial spans of its list, the span is used last and looked at last.
  void put_last(span* s) {
    const unsigned number = number_of(s);
    if (number >= partial_lists || is_aside(partial_[number].back())) return;
    partial_[number].remove(s);
    partial_[number].push_back(s);
  }

  // Calls visit(span) for partial spans with at least `eighths` of their slots free, the emptiest first, at most `looks`
  // of each list, until it returns false. visit() may call change_free_count() for its span. Skips lists in which no span
  // can have `least` free slots, judged by the capacity of the first span in the list. (Not analyzed: visit() requires the
  // owner's lock, which the analysis does not see.)
  template <class Visit>
  void for_each_partial(unsigned eighths, std::size_t least, std::size_t looks,
                        Visit visit) TARN_NOT_ANALYZED {
    for (unsigned i = partial_lists; i-- > eighths;) {
      span_list& list = partial_[i];
      if (list.empty() || list.front()->most_in_list < least) continue;
      std::size_t left = looks;
      for (span *s = list.front(), *next = nullptr; s != nullptr && !is_aside(s) && left-- != 0; s = next) {
        next = s->next;
        if (!visit(s)) return;
      }
    }
  }

  // Slots of all spans that are not spare; how many of these are free, how many are not (live or in magazines), and how
  // many are in spans with free ones.
  [[nodiscard]] std::size_t slots() const { return static_cast<std::size_t>(slots_); }
  [[nodiscard]] std::size_t free_slots() const { return static_cast<std::size_t>(free_slots_); }
  [[nodiscard]] std::size_t taken() const { return static_cast<std::size_t>(slots_ - free_slots_); }
  [[nodiscard]] std::size_t partial_slots() const { return static_cast<std::size_t>(slots_ - full_slots_); }

  // Calls visit(span) for every span that is listed. For checks.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const span_list& list : partial_) visit_all(list, visit);
    visit_all(spare_, visit);
    visit_all(full_, visit);
  }

  // Checks the invariants. Spans without free slots that are in no list leave slots_ a lower bound only.
  void validate() const;

 private:
  friend class slot_spans_test_access;

  template <class Visit>
  static void visit_all(const span_list& list, Visit& visit) {
    for (const span* s = list.front(); s != nullptr; s = s->next) visit(*s);
  }

  static constexpr unsigned number_bits = 4;
  static constexpr std::uint8_t last_generation = 15;
  static_assert(spare_list < no_list && no_list < 1U << number_bits);

  static std::uint8_t number_of(const span* s) { return s->list & ((1U << number_bits) - 1); }
  [[nodiscard]] bool is_aside(const span* s) const { return s->list >> number_bits < oldest_used_; }
  [[nodiscard]] bool has_used(unsigned list) const {
    return !partial_[list].empty() && !is_aside(partial_[list].front());
  }
  void note_filled(unsigned list) {
    filled_ = has_used(list) ? filled_ | 1U << list : filled_ & ~(1U << list);
  }

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

  void count_spare(std::uint32_t count, std::size_t bytes) {
    spare_count_.store(count, std::memory_order_relaxed);
    spare_bytes_.store(bytes, std::memory_order_relaxed);
  }

  TARN_ALWAYS_INLINE void link(span* s, std::uint8_t target) {
    s->list = static_cast<std::uint8_t>(target | generation_ << number_bits);
    set_bounds(s, target);
    if (target == no_list) {
      full_slots_ += s->capacity;
      if (lists_full_) full_.push_front(s);
      return;
    }
    if (target == spare_list) {
      spare_.push_front(s);
      count_spare(spare_count() + 1, spare_bytes() + s->bytes());
      return;
    }
    partial_[target].push_front(s);
    filled_ |= 1U << target;
  }

  TARN_ALWAYS_INLINE void unlink(span* s) {
    const std::uint8_t from = number_of(s);
    s->list = no_list;
    if (from == no_list) {
      full_slots_ -= s->capacity;
      if (lists_full_) full_.remove(s);
      return;
    }
    if (from == spare_list) {
      spare_.remove(s);
      count_spare(spare_count() - 1, spare_bytes() - s->bytes());
      spare_low_.note(spare_count());
      return;
    }
    partial_[from].remove(s);
    if (!has_used(from)) filled_ &= ~(1U << from);
  }

  std::atomic<std::uint32_t> spare_count_{0};
  low_mark spare_low_;
  std::atomic<std::size_t> spare_bytes_{0};
  std::int64_t slots_ = 0;
  std::int64_t free_slots_ = 0;
  std::int64_t full_slots_ = 0;
  std::uint32_t filled_ = 0;
  const bool lists_full_;
  std::uint8_t generation_ = 0;  // forks between the first process and this one, at which it set spans aside
  std::uint8_t oldest_used_ = 0;
  span_list partial_[partial_lists];
  span_list spare_;
  span_list full_;
};

inline void slot_spans::validate() const {
  std::int64_t slots = 0;
  std::int64_t free_slots = 0;
  for (unsigned i = 0; i < partial_lists; ++i) {
    partial_[i].validate();
    TARN_INVARIANT("slot_spans", this, (filled_ >> i & 1U) == (has_used(i) ? 1 : 0));
    bool aside = false;
    for (const span* s = partial_[i].front(); s != nullptr; s = s->next) {
      TARN_INVARIANT("slot_spans", this, number_of(s) == i && list_of(s) == i);
      TARN_INVARIANT("slot_spans", this, is_aside(s) >= aside);
      aside = is_aside(s);
      TARN_INVARIANT("slot_spans", this,
                     s->least_in_list <= s->free_objects && s->free_objects <= s->most_in_list);
      if (s->free_bits != nullptr) objects::validate(s);
      slots += s->capacity;
      free_slots += s->free_objects;
    }
  }
  TARN_INVARIANT("slot_spans", this, slots_ >= slots);
  TARN_INVARIANT("slot_spans", this, slots_ - full_slots_ == slots);
  TARN_INVARIANT("slot_spans", this, free_slots_ == free_slots);
  std::size_t spares = 0;
  std::size_t bytes = 0;
  spare_.validate();
  for (const span* s = spare_.front(); s != nullptr; s = s->next, ++spares) {
    TARN_INVARIANT("slot_spans", this, is_spare(s) && s->free_objects == s->capacity);
    if (s->free_bits != nullptr) objects::validate(s);
    bytes += s->bytes();
  }
  TARN_INVARIANT("slot_spans", this, spare_count() == spares);
  TARN_INVARIANT("slot_spans", this, spare_bytes() == bytes);
  TARN_INVARIANT("slot_spans", this, spare_low_.lowest() <= spare_count());
  std::int64_t full = 0;
  full_.validate();
  for (const span* s = full_.front(); s != nullptr; s = s->next) {
    TARN_INVARIANT("slot_spans", this, number_of(s) == no_list && s->free_objects == 0);
    if (s->free_bits != nullptr) objects::validate(s);
    full += s->capacity;
  }
  TARN_INVARIANT("slot_spans", this, !lists_full_ || full_slots_ == full);
}

}  // namespace tarn
