// SPDX-License-Identifier: MIT
// spans_in_transit: spans that a thread is purging or unmapping without the page heap's lock. A span's owner is that thread
// meanwhile, or null as long as the span waits for a thread; who needs memory may wait for the span, and a forked child
// finds it here.
//
// Thread safety: guarded by the page heap's lock.
// Invariant (validate()): pages_ is the sum over spans_.
#pragma once

#include <cstddef>

#include "pages/span.hpp"

namespace tarn {

class spans_in_transit {
 public:
  // At the end of the list: spans that a thread adds in one critical section stay adjacent, since others remove only their
  // own.
  void add(span* s, void* thread) {
    s->owner.store(thread, std::memory_order_relaxed);
    pages_ += s->pages;
    spans_.push_back(s);
  }
  void remove(span* s) {
    spans_.remove(s);
    pages_ -= s->pages;
    s->owner.store(nullptr, std::memory_order_relaxed);
  }

  // Whether that thread purges or unmaps `s`, which may be any span.
  [[nodiscard]] static bool is_of_thread(const span* s, const void* thread) {
    return s->state.load(std::memory_order_relaxed) == span_state::purging &&
           s->owner.load(std::memory_order_relaxed) == thread;
  }

  // A span that waits for a thread, which is `thread` from now on. Null: none waits.
  span* take_over(void* thread) {
    span* s = spans_.front();
    while (s != nullptr && !is_of_thread(s, nullptr)) s = s->next;
    if (s != nullptr) s->owner.store(thread, std::memory_order_relaxed);
    return s;
  }

  [[nodiscard]] span* front() const { return spans_.front(); }
  [[nodiscard]] std::size_t pages() const { return pages_; }
  [[nodiscard]] bool empty() const { return pages_ == 0; }
  // Whether there are spans that will be free again in a moment.
  [[nodiscard]] bool may_return() const { return pages_ != 0 && !are_lost_; }

  // In a forked child: threads that do not exist in it have spans here, so nobody waits for them (`lost`), or no longer.
  void set_lost(bool lost) { are_lost_ = lost; }
  [[nodiscard]] bool are_lost() const { return are_lost_; }

  void validate() const {
    spans_.validate();
    std::size_t sum = 0;
    for (const span* s = spans_.front(); s != nullptr; s = s->next) sum += s->pages;
    TARN_INVARIANT("spans_in_transit", this, pages_ == sum);
  }

 private:
  friend class spans_in_transit_test_access;

  span_list spans_;
  std::size_t pages_ = 0;
  bool are_lost_ = false;
};

}  // namespace tarn
