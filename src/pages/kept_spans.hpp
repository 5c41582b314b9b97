// SPDX-License-Identifier: MIT
// kept_spans: spans that stay whole and backed by memory for their next user: found by length, let go by age.
//
// A span that the page heap has free is warm too, but whoever needs a page may cut it, and its pages go back by the
// heap's time. Here a span keeps its length, and whoever owns the store says for how long, and how much.
//
// Not thread-safe: guarded by its owner's lock.
// Invariants:
//   - a span in it is in use as far as the page heap knows, in state `kept`, and counted as backed as a whole
//     (dirty_pages = pages);
//   - pages() = sum of the pages of its spans; kept_place::since_ms does not fall from oldest() to the newest one.
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

  // As the newest one. `now_ms` does not fall from call to call but by what clocks of several threads differ.
  void insert(span* s, std::int64_t now_ms, bool is_zero = false) {
    if (newest_ != nullptr) now_ms = std::max(now_ms, newest_->kept.since_ms);
    s->kept = {newest_, nullptr, now_ms, is_zero};
    (newest_ != nullptr ? newest_->kept.newer : oldest_) = s;
    newest_ = s;
    take_in(s);
  }

  // As one that has lain here since `since_ms`: the rest of a span that was cut.
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

  // The shortest of at least `pages` pages, as free_spans::best_fit; whether it fits() is for the caller to ask.
  [[nodiscard]] span* best(std::size_t pages) const {
    return by_length_.best_fit(free_spans::half::dirty, pages);
  }

  [[nodiscard]] span* oldest() const { return oldest_; }

  // How many fit a request, counted up to `most`.
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
