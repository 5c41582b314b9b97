// SPDX-License-Identifier: MIT
// thread_cache_registry: all thread caches: those of living threads, and those whose threads have ended.
//
// The cache of a thread that ends with little in it keeps that, for the next thread that starts: it rests. A period of
// decay empties the caches that have rested since the period before.
//
// Thread safety: guarded by its lock. Cache structures are never given back to the system, only reused.
// Invariants: cache_budget::caches == length of used_; c->next->previous == c in it; look_next_ is null or in used_; no
// cache in unused_ or resting_ has ended or is claimed; none in unused_ has capacity; resting_count_ == length of
// resting_ <= most_resting, and the first resting_count_ - rested_ of them came after the last period.
#pragma once

#include <atomic>
#include <cstddef>

#include "os/mutex.hpp"
#include "threads/thread_cache.hpp"

namespace tarn {

class thread_cache_registry {
 public:
  constexpr thread_cache_registry(central& c, cache_budget& budget) : central_(c), budget_(budget) {}

  // A cache for the calling thread; null: no memory. *adopted becomes true if it is, with its content, the cache of a
  // thread that ended without calling destroy().
  thread_cache* create(bool* adopted = nullptr);
  // The cache, with its content, of a thread that ended without calling destroy(); null: none was found.
  thread_cache* adopt_ended();
  // The thread ends: keeps the cache for another thread, with its objects if they are few; otherwise gives them back.
  void destroy(thread_cache* cache);
  // A period of decay: empties the caches that were resting at the last call; `all`: all that are resting.
  void empty_resting(bool all);
  [[nodiscard]] bool has_resting() const { return resting_count_.load(std::memory_order_relaxed) != 0; }
  // Empties the loaded magazines of idle threads. Called by the background thread only: it makes system calls.
  void empty_idle_caches();
  // In a forked child, whose only thread has the cache `mine`, or none (null). The other caches were
  // copied while their threads were using them, so nothing that they point to can be trusted: their content is lost to
  // the child (at most the caches' budget), and only the structures are reused. They are reset when they are needed, not
  // here: writing to them would copy memory that is shared with the parent.
  void keep_only(thread_cache* mine);

  // Calls visit(cache) for each cache of a living thread, under the lock.
  template <class Visit>
  void for_each(Visit visit) {
    os::lock_guard guard(lock_, *this);
    for (thread_cache* c = used_; c != nullptr; c = c->next) visit(*c);
  }
  // The same for the resting caches.
  template <class Visit>
  void for_each_resting(Visit visit) {
    os::lock_guard guard(lock_, *this);
    for (thread_cache* c = resting_; c != nullptr; c = c->next) visit(*c);
  }

  // Calls expire_countdowns() of all caches, also of those that wait for a thread. False: as there.
  bool expire_countdowns();

  void validate_locked() const TARN_REQUIRES(lock_) {
    std::size_t used = 0;
    bool has_look_next = look_next_ == nullptr;
    const thread_cache* last = nullptr;
    for (const thread_cache* c = used_; c != nullptr; last = c, c = c->next, ++used) {
      TARN_INVARIANT("thread_cache_registry", this, c->previous == last);
      has_look_next = has_look_next || c == look_next_;
    }
    TARN_INVARIANT("thread_cache_registry", this, count() == used);
    TARN_INVARIANT("thread_cache_registry", this, has_look_next);
    for (const thread_cache* c = unused_; c != nullptr; c = c->next) {
      TARN_INVARIANT("thread_cache_registry", this, !c->ended && !c->claimed());
      TARN_INVARIANT("thread_cache_registry", this, c->capacity_bytes() == 0);
    }
    std::size_t resting = 0;
    for (const thread_cache* c = resting_; c != nullptr; c = c->next, ++resting) {
      TARN_INVARIANT("thread_cache_registry", this, !c->ended && !c->claimed());
    }
    TARN_INVARIANT("thread_cache_registry", this,
                   resting == resting_count_.load(std::memory_order_relaxed) && resting <= most_resting);
    TARN_INVARIANT("thread_cache_registry", this, rested_ <= resting);
  }

  [[nodiscard]] std::size_t count() const { return budget_.caches.load(std::memory_order_relaxed); }
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }

 private:
  // More would help threads that come and go no further; 16 threads that work in turn held 4 % more with 16.
  static constexpr std::size_t most_resting = 4;

  thread_cache* adopt();
  void begin_use(thread_cache* cache, std::size_t forks);
  std::size_t forks_now();
  void set_owner(thread_cache* cache);
  void unlink_locked(thread_cache* cache) TARN_REQUIRES(lock_);
  void retire_locked(thread_cache* cache) TARN_REQUIRES(lock_);
  void rest_locked(thread_cache* cache) TARN_REQUIRES(lock_);
  [[nodiscard]] bool has_room_to_rest() const {
    return resting_count_.load(std::memory_order_relaxed) < most_resting;
  }

  // The calling thread's, from begin_use() to destroy(); a handler may fork while the thread does not know it.
  static inline constinit thread_local thread_cache* own_ = nullptr;

  central& central_;
  cache_budget& budget_;
  os::mutex lock_{os::lock_rank::registry};
  thread_cache* used_ TARN_GUARDED_BY(lock_) = nullptr;
  thread_cache* unused_ TARN_GUARDED_BY(lock_) = nullptr;  // singly linked
  // Singly linked; the cache that came last is first.
  thread_cache* resting_ TARN_GUARDED_BY(lock_) = nullptr;
  std::atomic<std::size_t> resting_count_{0};  // written under lock_
  std::size_t rested_ TARN_GUARDED_BY(lock_) =
      0;  // so many at the end of resting_ were there at the last period
  thread_cache* abandoned_ TARN_GUARDED_BY(lock_) = nullptr;  // singly linked; content must not be read
  std::size_t forks_ TARN_GUARDED_BY(lock_) = 0;              // number of calls of keep_only()
  thread_cache* look_next_ TARN_GUARDED_BY(lock_) = nullptr;  // where adopt() continues
};

}  // namespace tarn
