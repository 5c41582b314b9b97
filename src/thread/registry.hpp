// SPDX-License-Identifier: MIT
// thread_cache_registry: every thread cache there is, and those whose threads have ended.
//
// Thread safety: guarded by its lock. Cache structures are never given back to the system, only reused.
#pragma once

#include <atomic>
#include <cstddef>

#include "os/mutex.hpp"
#include "thread/thread_cache.hpp"

namespace tarn {

class thread_cache_registry {
 public:
  constexpr thread_cache_registry(central& c, cache_budget& budget) : central_(c), budget_(budget) {}

  // A cache for the calling thread; null when there is no memory. *adopted becomes whether it is, with all that is in
  // it, that of a thread that ended unseen.
  thread_cache* create(bool* adopted = nullptr);
  // The thread ends: its objects go back, its cache waits for another thread.
  void destroy(thread_cache* cache);
  // Takes what the loaded magazines of idle threads hold. By the background thread only: it calls the system.
  void empty_idle_caches();
  // In a forked child, where `mine`, which may be null, is the only thread's. The others' were copied while their
  // threads used them: nothing that they point to can be trusted, so what they held is lost to the child (no
  // more than the caches' budget), and only their structures are used again. Not before they are needed: that
  // would copy memory shared with the parent.
  void keep_only(thread_cache* mine);

  // Calls visit(cache) for each cache of a living thread, under the lock.
  template <class Visit>
  void for_each(Visit visit) {
    os::lock_guard guard(lock_);
    for (thread_cache* c = used_; c != nullptr; c = c->next) visit(*c);
  }
  // The same for those of ended threads.
  template <class Visit>
  void for_each_unused(Visit visit) {
    os::lock_guard guard(lock_);
    for (thread_cache* c = unused_; c != nullptr; c = c->next) visit(*c);
  }

  [[nodiscard]] std::size_t count() const { return budget_.caches.load(std::memory_order_relaxed); }
  os::mutex& lock() { return lock_; }

 private:
  thread_cache* adopt();
  void set_owner(thread_cache* cache);
  void unlink_locked(thread_cache* cache);
  void retire_locked(thread_cache* cache);

  central& central_;
  cache_budget& budget_;
  os::mutex lock_{os::lock_rank::registry};
  thread_cache* used_ = nullptr;       // guarded by lock_
  thread_cache* unused_ = nullptr;     // guarded by lock_; singly linked
  thread_cache* abandoned_ = nullptr;  // guarded by lock_; singly linked; contents are not to be read
  thread_cache* look_next_ = nullptr;  // guarded by lock_; where adopt() goes on
};

}  // namespace tarn
