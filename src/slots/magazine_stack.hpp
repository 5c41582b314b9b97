// SPDX-License-Identifier: MIT
// magazine_stack: magazines that wait for a thread that needs one.
//
// Thread safety: guarded by a lock of its owner, except count(), which any thread may call.
// Invariant: count() == length of the list, and low_.lowest() <= count().
#pragma once

#include <atomic>
#include <cstdint>

#include "base/chain.hpp"
#include "base/low_mark.hpp"
#include "os/invariant.hpp"
#include "slots/magazine.hpp"

namespace tarn {

class magazine_stack {
 public:
  [[nodiscard]] std::uint32_t count() const { return count_.load(std::memory_order_relaxed); }
  [[nodiscard]] const magazine* first() const { return first_; }

  void push(magazine* m) {
    chain::push(first_, m);
    count_.store(count() + 1, std::memory_order_relaxed);
  }
  // Null: there is none.
  magazine* pop() {
    magazine* const m = chain::pop(first_);
    if (m == nullptr) return nullptr;
    const std::uint32_t left = count() - 1;
    count_.store(left, std::memory_order_relaxed);
    low_.note(left);
    return m;
  }
  // Ends a period of decay. Returns the number of magazines that were not needed in it, or of `all`.
  std::uint32_t end_period(bool all) {
    const std::uint32_t idle = low_.end_period(count());
    return all ? count() : idle;
  }

  // Checks the invariant. Under the lock.
  void validate() const {
    std::uint32_t length = 0;
    for (const magazine* m = first_; m != nullptr; m = m->next, ++length) m->validate();
    TARN_INVARIANT("magazine_stack", this, count() == length);
    TARN_INVARIANT("magazine_stack", this, low_.lowest() <= count());
  }

 private:
  friend class magazine_stack_test_access;

  magazine* first_ = nullptr;
  std::atomic<std::uint32_t> count_{0};  // written under the lock
  low_mark low_;
};

}  // namespace tarn
