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

  enum class half : std::uint8_t { clean, dirty };

  static constexpr std::size_t bin_of(std::size_t pages) {
    if (pages < exact_bins) return pages;
    const auto log2 = static_cast<std::size_t>(std::bit_width(pages)) - 1;
    return exact_bins + (log2 - 6) * bins_per_doubling + ((pages >> (log2 - 3)) & 7);
  }

  // `state`: that of all spans.
  void validate(span_state state) const {
    for (const half which : {half::clean, half::dirty}) {
      for (std::size_t number = 0; number < bin_count; ++number) {
        TARN_INVARIANT("free_spans", this, is_used(which, number) == !bin(which, number).empty());
        bin(which, number).validate();
        for (const span* s = bin(which, number).front(); s != nullptr; s = s->next) {
          const span_state state_of_span = s->state.load(std::memory_order_relaxed);
          TARN_INVARIANT("free_spans", this, state_of_span == state);
          TARN_INVARIANT("free_spans", this, half_of(s) == which);
          TARN_INVARIANT("free_spans", this, bin_of(s->pages) == number);
        }
      }
    }
  }

  void insert(span* s) {
    const half which = half_of(s);
    const std::size_t number = bin_of(s->pages);
    list(which, number).push_front(s);
    bitmap_of(which)[number / 64] |= std::uint64_t{1} << (number % 64);
  }

  void remove(span* s) {
    const half which = half_of(s);
    const std::size_t number = bin_of(s->pages);
    list(which, number).remove(s);
    if (bin(which, number).empty()) bitmap_of(which)[number / 64] &= ~(std::uint64_t{1} << (number % 64));
  }

  // The shortest span of at least `pages` pages, at least `least_dirty` of its pages dirty (of equal ones that at the
  // lowest address), in the first bin that has one. Looks at `most_looks` spans of the bin of this length and at as many
  // of the longer bins together. Null: no visited span fits. Without `least_dirty`, a span in a longer bin always fits:
  // then null means below 64 pages, or with all_spans, that no span fits. The span stays in its list.
  [[nodiscard]] span* best_fit(half which, std::size_t pages, std::size_t least_dirty = 0,
                               std::size_t most_looks = look_limit) const {
    const std::size_t first = bin_of(pages);
    std::size_t looks = most_looks;
    if (is_used(which, first)) {
      if (span* s = best_of(bin(which, first), pages, least_dirty, looks)) return s;
    }
    looks = most_looks;
    for (std::size_t number = first; (number = next_used(which, number + 1)) < bin_count && looks != 0;) {
      if (span* s = best_of(bin(which, number), pages, least_dirty, looks)) return s;
    }
    return nullptr;
  }

  // A span of the longest non-empty bin.
  [[nodiscard]] span* longest(half which) const {
    for (std::size_t word = bitmap_words; word-- > 0;) {
      if (const std::uint64_t bits = bitmap_of(which)[word]; bits != 0)
        return bin(which, word * 64 + static_cast<std::size_t>(63 - std::countl_zero(bits))).front();
    }
    return nullptr;
  }

  // The span with this address, if it is among the `look_limit` longest ones of its half; else null.
  [[nodiscard]] span* containing(std::uintptr_t address) const {
    for (const half which : {half::clean, half::dirty}) {
      std::size_t looks = look_limit;
      for (std::size_t number = bin_count; number-- > 0 && looks != 0;) {
        for (span* s = bin(which, number).front(); s != nullptr && looks != 0; s = s->next, --looks) {
          if (s->contains(address)) return s;
        }
      }
    }
    return nullptr;
  }

  [[nodiscard]] const span_list& bin(half which, std::size_t number) const {
    return lists_[static_cast<int>(which)][number];
  }
  [[nodiscard]] const span_list& dirty_bin(std::size_t number) const { return bin(half::dirty, number); }

 private:
  static constexpr std::size_t bitmap_words = (bin_count + 63) / 64;

  // Whether a bin is not empty, without a look at its list.
  [[nodiscard]] bool is_used(half which, std::size_t number) const {
    return (bitmap_of(which)[number / 64] >> (number % 64) & 1U) != 0;
  }
  // The first non-empty bin from `number` on, or bin_count.
  [[nodiscard]] std::size_t next_used(half which, std::size_t number) const {
    const std::uint64_t* const bitmap = bitmap_of(which);
    std::size_t word = number / 64;
    if (word >= bitmap_words) return bin_count;
    std::uint64_t bits = bitmap[word] & (~std::uint64_t{0} << (number % 64));
    while (bits == 0) {
      if (++word == bitmap_words) return bin_count;
      bits = bitmap[word];
    }
    return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }

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

  static half half_of(const span* s) { return s->dirty_pages != 0 ? half::dirty : half::clean; }
  span_list& list(half which, std::size_t number) { return lists_[static_cast<int>(which)][number]; }
  std::uint64_t* bitmap_of(half which) { return bitmaps_[static_cast<int>(which)]; }
  [[nodiscard]] const std::uint64_t* bitmap_of(half which) const { return bitmaps_[static_cast<int>(which)]; }

  // In this order: a new heap, which has clean spans only, touches no more than the beginning.
  std::uint64_t bitmaps_[2][bitmap_words] = {};
  span_list lists_[2][bin_count];
};

}  // namespace tarn
