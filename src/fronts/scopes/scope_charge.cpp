// SPDX-License-Identifier: MIT
#include "fronts/scopes/scope_charge.hpp"

#include <climits>

namespace tarn {

void scope_charge::begin(std::size_t limit, bool lends, scope_charge& parent) {
  parent_ = &parent;
  limit_ = limit;
  lends_ = lends;
  charged_.store(0, std::memory_order_relaxed);
  peak_.store(0, std::memory_order_relaxed);
}

bool scope_charge::charge(std::size_t bytes, scope_charge*& full) {
  for (scope_charge* c = this; c != nullptr; c = c->parent_) {
    // Relaxed, here and below: only the sum counts.
    if (!c->would_exceed(c->charged(), bytes)) continue;
    full = c;
    return false;
  }
  return add(bytes, full);
}

// Undone if another thread has taken the room of a scope around this one meanwhile.
bool scope_charge::add(std::size_t bytes, scope_charge*& full) {
  std::size_t before = charged();
  do {
    if (would_exceed(before, bytes)) {
      full = this;
      return false;
    }
  } while (!charged_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  if (parent_ != nullptr && !parent_->add(bytes, full)) {
    charged_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  std::size_t most = peak();
  while (most < before + bytes &&
         !peak_.compare_exchange_weak(most, before + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

void scope_charge::uncharge(std::size_t bytes) {
  if (bytes == 0) return;
  take_off(bytes);
  wake_waiters();
}

void scope_charge::take_off(std::size_t bytes) {
  for (scope_charge* c = this; c != nullptr; c = c->parent_)
    c->charged_.fetch_sub(bytes, std::memory_order_relaxed);
}

void scope_charge::wake_waiters() {
  for (scope_charge* c = this; c != nullptr; c = c->parent_) {
    if (c->waiters_.load(std::memory_order_relaxed) == 0) continue;
    c->freed_.fetch_add(1, std::memory_order_relaxed);
    os::futex_wake(&c->freed_, INT_MAX);
  }
}

// The counter is read before the charge is tried again; a wake-up that is lost in between costs a sleep.
void scope_charge::wait(std::int64_t ms) {
  waiters_.fetch_add(1, std::memory_order_relaxed);
  os::futex_wait(&freed_, freed_.load(std::memory_order_relaxed), ms);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tarn
