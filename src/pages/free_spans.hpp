// SPDX-License-Identifier: MIT
// free_spans: the free spans of a page heap in lists by length. Dirty spans (some pages backed by memory) and clean
// ones are kept in separate halves.
//
// There is one bin per length below 64 pages, and eight bins per doubling above. A bitmap tells which bins are not
// empty, so a search for a fit visits two bins, and a bounded number of spans in each.
//
// Not thread-safe: guarded by the page heap's lock.
// Invariants:
//   - every span in it has the same state, is in the `dirty` half if and only if dirty_pages > 0, and in the list
//     bin_of(pages) of its half;
//   - bit b of a half's bitmap is set if and only if its list b is not empty.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "pages/span.hpp"

namespace tarn {

class free_spans {
 public:
  static constexpr std::size_t exact_bins = 64;
  static constexpr std::size_t bins_per_doubling = 8;
  static constexpr std::size_t bin_count = exact_bins + bins_per_doubling * (32 - 6);

  // The most spans of one bin that a search visits, fitting or not.
  static constexpr std::size_t look_limit = 32;
  static constexpr std::size_t all_spans = SIZE_MAX;

  enum class half : std::uint8_t { dirty, clean };

  static constexpr std::size_t bin_of(std::size_t pages) {
    if (pages < exact_bins) return pages;
    const auto log2 = static_cast<std::size_t>(std::bit_width(pages)) - 1;
    return exact_bins + (log2 - 6) * bins_per_doubling + ((pages >> (log2 - 3)) & 7);
  }

  // `state`: that of all spans.
  void validate(span_state state) const {
    for (const bins* b : {&dirty_, &clean_}) {
      for (std::size_t bin = 0; bin < bin_count; ++bin) {
        const bool has_bit = (b->bitmap[bin / 64] >> (bin % 64) & 1U) != 0;
        TARN_INVARIANT("free_spans", this, has_bit == !b->lists[bin].empty());
        b->lists[bin].validate();
        for (const span* s = b->lists[bin].front(); s != nullptr; s = s->next) {
          const span_state state_of_span = s->state.load(std::memory_order_relaxed);
          TARN_INVARIANT("free_spans", this, state_of_span == state);
          TARN_INVARIANT("free_spans", this, (s->dirty_pages > 0) == (b == &dirty_));
          TARN_INVARIANT("free_spans", this, bin_of(s->pages) == bin);
        }
      }
    }
  }

  void insert(span* s) {
    bins& b = half_of(s);
    const std::size_t bin = bin_of(s->pages);
    b.lists[bin].push_front(s);
    b.bitmap[bin / 64] |= std::uint64_t{1} << (bin % 64);
  }

  void remove(span* s) {
    bins& b = half_of(s);
    const std::size_t bin = bin_of(s->pages);
    b.lists[bin].remove(s);
    if (b.lists[bin].empty()) b.bitmap[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }

  // The shortest span of at least `pages` pages, at least `least_dirty` of its pages dirty (of equal ones that at the
  // lowest address), in the first bin that has one. Looks at `most_looks` spans of the bin of this length and at as many
  // of the longer bins together. Null: no visited span fits. Without `least_dirty`, a span in a longer bin always fits:
  // then null means below 64 pages, or with all_spans, that no span fits. The span stays in its list.
  [[nodiscard]] span* best_fit(half which, std::size_t pages, std::size_t least_dirty = 0,
                               std::size_t most_looks = look_limit) const {
    const bins& b = which == half::dirty ? dirty_ : clean_;
    const std::size_t first = bin_of(pages);
    std::size_t looks = most_looks;
    if (span* s = best_of(b.lists[first], pages, least_dirty, looks)) return s;
    looks = most_looks;
    for (std::size_t bin = first; (bin = b.next_used(bin + 1)) < bin_count && looks != 0;) {
      if (span* s = best_of(b.lists[bin], pages, least_dirty, looks)) return s;
    }
    return nullptr;
  }

  // A span of the longest non-empty bin.
  [[nodiscard]] span* longest(half which) const {
    const bins& b = which == half::dirty ? dirty_ : clean_;
    for (std::size_t word = bitmap_words; word-- > 0;) {
      if (b.bitmap[word] != 0) {
        const auto bit = static_cast<std::size_t>(63 - std::countl_zero(b.bitmap[word]));
        return b.lists[word * 64 + bit].front();
      }
    }
    return nullptr;
  }

  [[nodiscard]] const span_list& bin(half which, std::size_t number) const {
    return (which == half::dirty ? dirty_ : clean_).lists[number];
  }
  [[nodiscard]] const span_list& dirty_bin(std::size_t number) const { return bin(half::dirty, number); }

 private:
  static constexpr std::size_t bitmap_words = (bin_count + 63) / 64;
  struct bins {
    span_list lists[bin_count];
    std::uint64_t bitmap[bitmap_words] = {};

    // The first non-empty bin from `bin` on, or bin_count.
    [[nodiscard]] std::size_t next_used(std::size_t bin) const {
      std::size_t word = bin / 64;
      if (word >= bitmap_words) return bin_count;
      std::uint64_t bits = bitmap[word] & (~std::uint64_t{0} << (bin % 64));
      while (bits == 0) {
        if (++word == bitmap_words) return bin_count;
        bits = bitmap[word];
      }
      return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    }
  };

  static span* best_of(const span_list& list, std::size_t pages, std::size_t least_dirty,
                       std::size_t& looks) {
    span* best = nullptr;
    for (span* s = list.front(); s != nullptr && looks != 0; s = s->next, --looks) {
      if (s->pages < pages || s->dirty_pages < least_dirty) continue;
      if (best == nullptr || s->pages < best->pages || (s->pages == best->pages && s->start < best->start))
        best = s;
    }
    return best;
  }

  bins& half_of(const span* s) { return s->dirty_pages != 0 ? dirty_ : clean_; }

  bins dirty_;
  bins clean_;
};

}  // namespace tarn
