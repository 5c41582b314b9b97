// SPDX-License-Identifier: MIT
// kept_spans: a store of spans that stay whole and backed for their next user. Spans are found by length and removed by
// age.
//
// A free span of the page heap is warm too, but any request for pages may cut it, and the heap's decay decides when it
// is purged. A span kept here keeps its length, and the owner of the store decides how long and how many.
//
// Not thread-safe: guarded by its owner's lock.
// Invariants:
//   - for the page heap a span in the store is in use: its state is `kept`, and all its pages count as backed
//     (dirty_pages == pages);
//   - pages() is the sum of the pages of its spans, count() their number; kept_place::since_ms never decreases from
//     oldest() to the newest; the spans by age and by length are the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pages/free_spans.hpp"
#include "pages/span.hpp"

namespace tarn {

class kept_spans {
 public:
  // Whether a span of `length` pages may serve a request of `pages` as it is: at most a quarter is wasted.
  static constexpr bool fits(std::size_t length, std::size_t pages) {
    return length >= pages && length - pages <= pages / 4;
  }

  [[nodiscard]] bool empty() const { return oldest_ == nullptr; }
  [[nodiscard]] std::size_t pages() const { return pages_; }
  [[nodiscard]] std::size_t count() const { return count_; }

  void validate() const {
    by_length_.validate(span_state::kept);
    std::size_t pages = 0;
    std::size_t count = 0;
    std::size_t count_by_length = 0;
    const span* last = nullptr;
    for (const span* s = oldest_; s != nullptr; last = s, s = s->kept.newer) {
      TARN_INVARIANT("kept_spans", this, s->kept.older == last);
      TARN_INVARIANT("kept_spans", this, last == nullptr || last->kept.since_ms <= s->kept.since_ms);
      TARN_INVARIANT("kept_spans", this, s->dirty_pages == s->pages);
      pages += s->pages;
      ++count;
    }
    for (std::size_t bin = 0; bin < free_spans::bin_count; ++bin) {
      for (const span* s = by_length_.dirty_bin(bin).front(); s != nullptr; s = s->next) ++count_by_length;
    }
    TARN_INVARIANT("kept_spans", this, newest_ == last);
    TARN_INVARIANT("kept_spans", this, pages_ == pages);
    TARN_INVARIANT("kept_spans", this, count_ == count);
    TARN_INVARIANT("kept_spans", this, count_by_length == count);
  }

  // Adds `s` as the newest span. From call to call `now_ms` may decrease only by the difference between two threads'
  // clocks.
  void insert(span* s, std::int64_t now_ms, bool is_zero = false) {
    if (newest_ != nullptr) now_ms = std::max(now_ms, newest_->kept.since_ms);
    s->kept = {newest_, nullptr, now_ms, is_zero};
    (newest_ != nullptr ? newest_->kept.newer : oldest_) = s;
    newest_ = s;
    take_in(s);
  }

  // Adds `s` as if it had been here since `since_ms`: the remainder of a span that was cut.
  void insert_aged(span* s, std::int64_t since_ms, bool is_zero = false) {
    span* newer = nullptr;
    span* older = newest_;
    while (older != nullptr && older->kept.since_ms > since_ms) {
      newer = older;
      older = older->kept.older;
    }
    s->kept = {older, newer, since_ms, is_zero};
    (older != nullptr ? older->kept.newer : oldest_) = s;
    (newer != nullptr ? newer->kept.older : newest_) = s;
    take_in(s);
  }

  void remove(span* s) {
    (s->kept.older != nullptr ? s->kept.older->kept.newer : oldest_) = s->kept.newer;
    (s->kept.newer != nullptr ? s->kept.newer->kept.older : newest_) = s->kept.older;
    by_length_.remove(s);
    s->next = s->previous = nullptr;
    std::fill_n(s->inline_bits, span::inline_words, std::uint64_t{0});
    pages_ -= s->pages;
    --count_;
  }

  // The shortest span of at least `pages` pages, as free_spans::best_fit(); the caller checks fits().
  [[nodiscard]] span* best(std::size_t pages) const {
    return by_length_.best_fit(free_spans::half::dirty, pages);
  }

  [[nodiscard]] span* oldest() const { return oldest_; }

  // How many spans fit the request; stops counting at `most`.
  [[nodiscard]] std::size_t count_fitting(std::size_t pages, std::size_t most) const {
    std::size_t found = 0;
    for (const span* s = newest_; s != nullptr && found < most; s = s->kept.older) {
      if (fits(s->pages, pages)) ++found;
    }
    return found;
  }

 private:
  void take_in(span* s) {
    s->dirty_pages = s->pages;
    s->state.store(span_state::kept, std::memory_order_relaxed);
    by_length_.insert(s);
    pages_ += s->pages;
    ++count_;
  }

  free_spans by_length_;
  span* oldest_ = nullptr;
  span* newest_ = nullptr;
  std::size_t pages_ = 0;
  std::size_t count_ = 0;
};

}  // namespace tarn
