// SPDX-License-Identifier: MIT
#include "thread/registry.hpp"

#include <new>

#include "os/syscall.hpp"

namespace tarn {

namespace {

// How many caches a new thread without one looks at for a thread that has ended unseen.
constexpr int adoption_looks = 4;
constexpr std::size_t adoption_from = 64;

bool thread_exists(long thread) {
  constexpr long no_such_process = -3;
  return os::system_call(SYS_tgkill, os::system_call(SYS_getpid), thread, 0) != no_such_process;
}

}  // namespace

void thread_cache_registry::unlink_locked(thread_cache* cache) {
  (cache->previous != nullptr ? cache->previous->next : used_) = cache->next;
  if (cache->next != nullptr) cache->next->previous = cache->previous;
  if (look_next_ == cache) look_next_ = cache->next;
  budget_.caches.fetch_sub(1, std::memory_order_relaxed);
}

// A thread that allocates for the first time in its last destructors ends without telling us: its cache, with
// all that is in it, becomes the next thread's.
thread_cache* thread_cache_registry::adopt() {
  // A few such caches do not matter, and a sandbox may forbid the question.
  if (count() < adoption_from) return nullptr;
  for (int look = 0; look < adoption_looks; ++look) {
    long thread = 0;
    {
      os::lock_guard guard(lock_);
      if (look_next_ == nullptr) look_next_ = used_;
      if (look_next_ == nullptr) return nullptr;
      thread = look_next_->thread_id;
      look_next_ = look_next_->next;
    }
    if (thread_exists(thread)) continue;
    os::lock_guard guard(lock_);
    for (thread_cache* c = used_; c != nullptr; c = c->next) {
      if (c->thread_id == thread) {
        unlink_locked(c);
        return c;
      }
    }
  }
  return nullptr;
}

thread_cache* thread_cache_registry::create() {
  thread_cache* cache = nullptr;
  {
    os::lock_guard guard(lock_);
    cache = unused_;
    if (cache != nullptr) unused_ = cache->next;
  }
  if (cache == nullptr) cache = adopt();
  if (cache == nullptr) {
    void* memory = central_.metadata().allocate(sizeof(thread_cache), alignof(thread_cache));
    if (memory == nullptr) return nullptr;
    cache = new (memory) thread_cache(central_, budget_);
  }
  cache->thread_id = os::system_call(SYS_gettid);
  os::lock_guard guard(lock_);
  cache->previous = nullptr;
  cache->next = used_;
  if (used_ != nullptr) used_->previous = cache;
  used_ = cache;
  budget_.caches.fetch_add(1, std::memory_order_relaxed);
  return cache;
}

void thread_cache_registry::destroy(thread_cache* cache) {
  cache->flush_all();
  os::lock_guard guard(lock_);
  unlink_locked(cache);
  cache->next = unused_;
  unused_ = cache;
}

void thread_cache_registry::keep_only(thread_cache* mine) {
  os::lock_guard guard(lock_);
  thread_cache* cache = used_;
  used_ = nullptr;
  look_next_ = nullptr;
  budget_.caches.store(0, std::memory_order_relaxed);
  while (cache != nullptr) {
    thread_cache* const next = cache->next;
    if (cache == mine) {
      cache->next = cache->previous = nullptr;
      cache->thread_id = os::system_call(SYS_gettid);
      used_ = cache;
      budget_.caches.store(1, std::memory_order_relaxed);
    } else {
      cache->next = unused_;
      unused_ = cache;
    }
    cache = next;
  }
}

}  // namespace tarn
