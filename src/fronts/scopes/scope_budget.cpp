// SPDX-License-Identifier: MIT
// scope_core's budget: the charge of a scope and of those around it, and what happens when it is full.
#include <algorithm>
#include <climits>

#include "fronts/scopes/scope_bin.hpp"
#include "fronts/scopes/scope_core.hpp"
#include "os/clock.hpp"

namespace tarn {
namespace {

// A callback that always says that it has freed something is not believed more often than this for one allocation.
constexpr int most_callbacks = 64;
// How long a thread that waits for memory sleeps at most before it looks again: the wake-up is a hint.
constexpr std::int64_t longest_sleep_ms = 10;
// Others may leave memory as fast as it is taken.
constexpr int most_looks = 4096;

constinit os::mutex idle_scopes{os::lock_rank::scope};

}  // namespace

// ---- what other scopes have left ----

os::mutex& scope_core::idle_lock() { return idle_scopes; }

// A span of the scope has become empty.
void scope_core::note_idle() {
  if (TARN_LIKELY(is_listed_.load(std::memory_order_relaxed))) return;
  os::lock_guard guard(idle_scopes);
  for (scope_core* c = this; c->parent_ != nullptr; c = c->parent_) {
    if (c->is_listed_.load(std::memory_order_relaxed)) return;
    scope_core*& first = c->parent_->idle_inside_;
    c->previous_idle_ = nullptr;
    c->next_idle_ = first;
    if (first != nullptr) first->previous_idle_ = c;
    first = c;
    c->is_listed_.store(true, std::memory_order_relaxed);
  }
}

// The scope, which has no scopes inside, is listed no more.
void scope_core::forget_idle() {
  if (!is_listed_.load(std::memory_order_relaxed)) return;
  os::lock_guard guard(idle_scopes);
  unlist();
}

void scope_core::unlist() {
  if (!is_listed_.load(std::memory_order_relaxed)) return;
  (previous_idle_ != nullptr ? previous_idle_->next_idle_ : parent_->idle_inside_) = next_idle_;
  if (next_idle_ != nullptr) next_idle_->previous_idle_ = previous_idle_;
  is_listed_.store(false, std::memory_order_relaxed);
}

// An idle scope inside this one, which is listed no more; null: there is none. It may end at any time, and its structure
// be another scope's: then that one's empty spans go.
scope_core* scope_core::take_idle_inside() {
  os::lock_guard guard(idle_scopes);
  scope_core* c = this;
  while (c->idle_inside_ != nullptr) c = c->idle_inside_;
  if (c == this) return nullptr;
  c->unlist();
  return c;
}

void scope_core::release_idle_inside(std::size_t most) {
  for (std::size_t i = 0; i < most; ++i) {
    scope_core* const idle = take_idle_inside();
    if (idle == nullptr) return;
    idle->release_empty();
  }
}

// Charges after memory has been given back that this scope, those around it up to the full one, or others inside that one
// have left.
bool scope_core::reclaim_inside(std::size_t bytes, scope_core*& full) {
  for (scope_core* c = this; c != nullptr; c = c != full ? c->parent_ : nullptr) c->release_empty();
  for (int looks = 0; looks < most_looks; ++looks) {
    if (charge(bytes, full)) return true;
    scope_core* const idle = full != this ? full->take_idle_inside() : nullptr;
    if (idle == nullptr) return false;
    idle->release_empty();
  }
  return false;
}

// ---- the charge ----

// False: it would exceed the budget of *full; nothing is charged. What does not fit is not added first, since other
// threads would meet it there.
bool scope_core::charge(std::size_t bytes, scope_core*& full) {
  for (scope_core* c = this; c != nullptr; c = c->parent_) {
    // Relaxed, here and below: only the sum counts.
    if (!c->would_exceed(c->charged_.load(std::memory_order_relaxed), bytes)) continue;
    full = c;
    return false;
  }
  return add_charge(bytes, full);
}

// The same; undone if another thread has taken the room of a scope around this one meanwhile.
bool scope_core::add_charge(std::size_t bytes, scope_core*& full) {
  std::size_t before = charged_.load(std::memory_order_relaxed);
  do {
    if (would_exceed(before, bytes)) {
      full = this;
      return false;
    }
  } while (!charged_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  if (parent_ != nullptr && !parent_->add_charge(bytes, full)) {
    charged_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  std::size_t most = peak_.load(std::memory_order_relaxed);
  while (most < before + bytes &&
         !peak_.compare_exchange_weak(most, before + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

bool scope_core::would_exceed(std::size_t charged, std::size_t bytes) const {
  return options_.limit != 0 && options_.over != TARN_SCOPE_LEND && charged + bytes > options_.limit;
}

// Call without a lock: it may wake threads.
void scope_core::uncharge(std::size_t bytes) {
  if (bytes == 0) return;
  take_off_charge(bytes);
  wake_waiters();
}

void scope_core::take_off_charge(std::size_t bytes) {
  for (scope_core* c = this; c != nullptr; c = c->parent_)
    c->charged_.fetch_sub(bytes, std::memory_order_relaxed);
}

void scope_core::wake_waiters() {
  for (scope_core* c = this; c != nullptr; c = c->parent_) {
    if (c->waiters_.load(std::memory_order_relaxed) == 0) continue;
    c->freed_.fetch_add(1, std::memory_order_relaxed);
    os::futex_wake(&c->freed_, INT_MAX);
  }
}

// What the program wants to happen when `full` has no room. True: try again.
bool scope_core::ask(scope_core& full, std::size_t bytes, scope_bin* bin, int& tries,
                     std::int64_t& waits_until) {
  const tarn_scope_options& options = full.options_;
  if (thread_is_asked) return false;
  if (options.on_full != nullptr && bin != nullptr && tries < most_callbacks) {
    ++tries;
    scope_name::add(full.row_->callbacks);
    thread_is_asked = true;
    const int answer = options.on_full(options.context, full.handle, bytes);
    thread_is_asked = false;
    if (answer != 0) return true;
  }
  if (options.over != TARN_SCOPE_WAIT || options.wait_ms == 0) return false;
  const std::int64_t now = os::now_ms();
  if (waits_until < 0) {
    waits_until = now + options.wait_ms;
    scope_name::add(full.row_->waits);
  }
  if (now >= waits_until) return false;
  // The counter is read before the charge is tried again; a wake-up that is lost in between costs a sleep.
  full.waiters_.fetch_add(1, std::memory_order_relaxed);
  os::futex_wait(&full.freed_, full.freed_.load(std::memory_order_relaxed),
                 std::min(waits_until - now, longest_sleep_ms));
  full.waiters_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

// Charges, if need be after memory of the scope has been given back, or the program has done something about it.
bool scope_core::pay(std::size_t bytes, scope_bin* bin) {
  scope_core* full = nullptr;
  if (TARN_LIKELY(charge(bytes, full))) return true;
  int tries = 0;
  std::int64_t waits_until = -1;
  do {
    if (bin != nullptr) scope_bin::put_back(bin->take_all());
    if (reclaim_inside(bytes, full)) return true;
  } while (ask(*full, bytes, bin, tries, waits_until));
  if (full->row_ != nullptr) scope_name::add(full->row_->failures);
  return false;
}

}  // namespace tarn
