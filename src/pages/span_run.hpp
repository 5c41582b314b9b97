// SPDX-License-Identifier: MIT
// span_run: spans in use that follow one another without a gap, on their way to become one (page_heap::join()). Each is
// looked at once, when it is added: where a run has hundreds of spans, a second walk would take as long as the first.
//
// Thread safety: one thread; takes no lock. Meanwhile the heap may look at the spans as neighbours of others, and change
// the borders of the first and the last one, as it gets memory beside them or gives it back. So both stay as they are, and
// join() reads their borders under the heap's lock.
// Invariant: the run covers [first_->start, end_); others_ has the structures of all its spans but the first, the last
// one in front, linked by next; tail_ is the end of that chain, and other_count_ its length. Those between the first
// span and the last one have been retired.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/invariant.hpp"
#include "pages/span.hpp"

namespace tarn {

class span_run {
 public:
  void validate() const {
    std::size_t count = 0;
    const span* tail = nullptr;
    for (const span* s = others_; s != nullptr; tail = s, s = s->next) {
      ++count;
      TARN_INVARIANT("span_run", this, s->is_retired() == (s != others_));
    }
    TARN_INVARIANT("span_run", this, count == other_count_);
    TARN_INVARIANT("span_run", this, tail == tail_);
    TARN_INVARIANT("span_run", this, first_ == nullptr || first_->start + bytes() == end_);
  }

  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  // Whether `s` may be added.
  [[nodiscard]] bool continues_at(const span* s) const { return first_ == nullptr || end_ == s->start; }

  // Requires: continues_at(s); nobody but the caller uses the span. It is no span any more unless it is the first one or,
  // until join(), the last one.
  void add(span* s) {
    pages_ += s->pages;
    dirty_pages_ += s->dirty_pages;
    end_ = s->end();
    if (first_ == nullptr) {
      first_ = s;
      return;
    }
    if (others_ != nullptr)
      others_->retire();
    else
      tail_ = s;
    s->next = others_;
    others_ = s;
    ++other_count_;
  }

 private:
  friend class page_heap;
  friend class span_run_test_access;

  [[nodiscard]] std::size_t bytes() const { return std::size_t{pages_} << page_shift; }

  span* first_ = nullptr;
  span* others_ = nullptr;
  span* tail_ = nullptr;
  std::size_t other_count_ = 0;
  std::uintptr_t end_ = 0;
  std::uint32_t pages_ = 0;
  std::uint32_t dirty_pages_ = 0;
};

}  // namespace tarn
