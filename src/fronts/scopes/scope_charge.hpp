// SPDX-License-Identifier: MIT
// scope_charge: the budget of a scope, and what is charged to it. What may be resident is charged, before it is taken, to
// the scope and to all scopes around it.
//
// Thread safety: any thread. Invariant, at every moment: charged() <= the limit, unless there is none, or the scope lends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/futex.hpp"

namespace tarn {

class scope_charge {
 public:
  [[nodiscard]] std::size_t charged() const { return charged_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }

  // False: it would exceed the budget of *full; nothing is charged. What does not fit is not added first, since other
  // threads would find it there.
  bool charge(std::size_t bytes, scope_charge*& full);
  // Call without a lock: it may wake threads.
  void uncharge(std::size_t bytes);

 protected:
  constexpr scope_charge() = default;
  void begin(std::size_t limit, bool lends, scope_charge& parent);

  // The two halves of uncharge().
  void take_off(std::size_t bytes);
  void wake_waiters();
  // Sleeps until something of this scope is given back, at most so long.
  void wait(std::int64_t ms);

  scope_charge* parent_ = nullptr;
  std::size_t limit_ = 0;  // 0: none

 private:
  [[nodiscard]] bool would_exceed(std::size_t charged, std::size_t bytes) const {
    return limit_ != 0 && !lends_ && charged + bytes > limit_;
  }
  bool add(std::size_t bytes, scope_charge*& full);

  bool lends_ = false;
  std::atomic<std::size_t> charged_{0};
  std::atomic<std::size_t> peak_{0};
  os::futex_word freed_{0};  // counts what was given back while somebody waits
  std::atomic<std::uint32_t> waiters_{0};
};

}  // namespace tarn
