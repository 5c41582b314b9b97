// SPDX-License-Identifier: MIT
// linked_list: a list of structures, linked by their members `next` and `previous`, that is known by both of its ends.
//
// Thread safety: none. Invariant: s->next->previous == s, and the last structure is tail_.
#pragma once

#include "os/invariant.hpp"

namespace tarn {

template <class T>
class linked_list {
 public:
  void validate() const {
    const T* last = nullptr;
    for (const T* s = head_; s != nullptr; last = s, s = s->next)
      TARN_INVARIANT("linked_list", this, s->previous == last);
    TARN_INVARIANT("linked_list", this, tail_ == last);
  }

  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] T* front() const { return head_; }
  [[nodiscard]] T* back() const { return tail_; }

  void push_front(T* s) {
    s->previous = nullptr;
    s->next = head_;
    (head_ != nullptr ? head_->previous : tail_) = s;
    head_ = s;
  }
  void push_back(T* s) {
    s->next = nullptr;
    s->previous = tail_;
    (tail_ != nullptr ? tail_->next : head_) = s;
    tail_ = s;
  }
  void remove(T* s) {
    (s->previous != nullptr ? s->previous->next : head_) = s->next;
    (s->next != nullptr ? s->next->previous : tail_) = s->previous;
    s->next = s->previous = nullptr;
  }
  // `s` becomes the first; what was before it follows the last. Writes four structures at most.
  void rotate_to(T* s) {
    if (s == head_) return;
    tail_->next = head_;
    head_->previous = tail_;
    head_ = s;
    tail_ = s->previous;
    tail_->next = nullptr;
    head_->previous = nullptr;
  }
  T* pop_front() {
    T* s = head_;
    if (s != nullptr) remove(s);
    return s;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace tarn
