// SPDX-License-Identifier: MIT
#include "fronts/scopes/idle_scope.hpp"

#include "base/chain.hpp"
#include "base/compiler.hpp"

namespace tarn {

static constinit os::mutex lists_lock{os::lock_rank::scope};

os::mutex& idle_scope::idle_lock() { return lists_lock; }

void idle_scope::note_idle() {
  if (TARN_LIKELY(is_listed_.load(std::memory_order_relaxed))) return;
  os::lock_guard guard(lists_lock);
  for (idle_scope* c = this; c->parent_ != nullptr; c = static_cast<idle_scope*>(c->parent_)) {
    if (c->is_listed_.load(std::memory_order_relaxed)) return;
    chain::insert(static_cast<idle_scope*>(c->parent_)->inside_, c);
    c->is_listed_.store(true, std::memory_order_relaxed);
  }
}

void idle_scope::forget_idle() {
  if (!is_listed_.load(std::memory_order_relaxed)) return;
  os::lock_guard guard(lists_lock);
  unlist();
}

void idle_scope::unlist() {
  if (!is_listed_.load(std::memory_order_relaxed)) return;
  chain::erase(static_cast<idle_scope*>(parent_)->inside_, this);
  is_listed_.store(false, std::memory_order_relaxed);
}

idle_scope* idle_scope::take_idle_inside() {
  os::lock_guard guard(lists_lock);
  idle_scope* c = this;
  while (c->inside_ != nullptr) c = c->inside_;
  if (c == this) return nullptr;
  c->unlist();
  return c;
}

}  // namespace tarn
