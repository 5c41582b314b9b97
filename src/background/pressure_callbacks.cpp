// SPDX-License-Identifier: MIT
#include "background/pressure_callbacks.hpp"

#include <climits>

#include "os/invariant.hpp"

namespace tarn {

void pressure_callbacks::validate_locked() const {
  std::size_t length = 0;
  bool has_next = next_ == nullptr;
  for (const tarn_pressure_callback* c = first_; c != nullptr; c = c->next, ++length)
    has_next = has_next || c == next_;
  TARN_INVARIANT("pressure_callbacks", this, length == count_.load(std::memory_order_relaxed));
  TARN_INVARIANT("pressure_callbacks", this, has_next);
  TARN_INVARIANT("pressure_callbacks", this, running_ == nullptr || runner_ != nullptr);
}

void pressure_callbacks::add(tarn_pressure_callback& callback) {
  os::lock_guard guard(lock_, *this);
  tarn_pressure_callback** link = &first_;
  for (; *link != nullptr; link = &(*link)->next) {
    if (*link == &callback) return;
  }
  callback.next = nullptr;
  *link = &callback;
  count_.fetch_add(1, std::memory_order_relaxed);
}

void pressure_callbacks::remove(tarn_pressure_callback& callback) {
  for (;;) {
    std::uint32_t seen = 0;
    {
      os::lock_guard guard(lock_, *this);
      for (tarn_pressure_callback** link = &first_; *link != nullptr; link = &(*link)->next) {
        if (*link != &callback) continue;
        if (next_ == &callback) next_ = callback.next;
        *link = callback.next;
        count_.fetch_sub(1, std::memory_order_relaxed);
        break;
      }
      if (running_ != &callback || runner_ == os::this_thread()) return;
      seen = calls_.load(std::memory_order_relaxed);
    }
    os::futex_wait(&calls_, seen, -1);
  }
}

tarn_pressure_callback* pressure_callbacks::take_next() {
  os::lock_guard guard(lock_, *this);
  running_ = next_;
  runner_ = os::this_thread();
  if (next_ != nullptr) next_ = next_->next;
  return running_;
}

void pressure_callbacks::end_call() {
  {
    os::lock_guard guard(lock_, *this);
    running_ = nullptr;
    runner_ = nullptr;
    calls_.fetch_add(1, std::memory_order_relaxed);
  }
  os::futex_wake(&calls_, INT_MAX);
}

void pressure_callbacks::call_all(const tarn_pressure& now) {
  {
    os::lock_guard guard(lock_, *this);
    next_ = first_;
  }
  while (tarn_pressure_callback* const callback = take_next()) {
    callback->call(callback->context, &now);
    end_call();
  }
  end_call();
}

void pressure_callbacks::after_fork_in_child() {
  if (runner_ == os::this_thread()) return;
  next_ = running_ = nullptr;
  runner_ = nullptr;
}

}  // namespace tarn
