// SPDX-License-Identifier: MIT
#include "threads/registry.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/chain.hpp"
#include "os/node.hpp"
#include "os/own_threads/thread.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn {

namespace {

// A new thread examines this many caches for one whose thread has ended without destroy(), if there are at least
// adoption_from caches.
constexpr int adoption_looks = 4;
constexpr std::size_t adoption_from = 16;
// A cache with fewer bytes than this is not worth emptying.
constexpr std::size_t worth_emptying = 16 * kib;
// The cache of an ended thread rests with its content if that has at most so many bytes.
constexpr std::size_t most_at_rest = 256 * kib;
// And if its share of the budget is no larger than this.
constexpr std::size_t most_capacity_at_rest = 1 * mib;

bool may_ask_for_threads(std::size_t caches) { return caches >= adoption_from && !os::in_sandbox(); }

}  // namespace

// Asks the kernel only if adopt() can use the answer: a few ownerless caches do not matter, and a sandbox may forbid
// the system calls.
void thread_cache_registry::set_owner(thread_cache* cache) {
  const bool asks = may_ask_for_threads(count());
  cache->process_id = asks ? os::system_call(SYS_getpid) : 0;
  cache->thread_id = asks ? os::system_call(SYS_gettid) : 0;
}

void thread_cache_registry::unlink_locked(thread_cache* cache) {
  if (look_next_ == cache) look_next_ = cache->next;
  chain::erase(used_, cache);
  if (own_ == cache) own_ = nullptr;
  budget_.caches.fetch_sub(1, std::memory_order_relaxed);
  central_.homes().leave(cache->home);
}

// A thread that allocates for the first time in its last destructors ends without calling destroy(). Its cache, with
// its content, is given to the next thread. In a process made by _Fork or clone none of our handlers has run: thread
// ids recorded in the parent mean nothing there, so caches with another process id are left alone.
thread_cache* thread_cache_registry::adopt() {
  if (!may_ask_for_threads(count())) return nullptr;
  const long process = os::system_call(SYS_getpid);
  for (int look = 0; look < adoption_looks; ++look) {
    const thread_cache* seen = nullptr;
    long thread = 0;
    {
      os::lock_guard guard(lock_, *this);
      // The first caches have no process id. They do not count as looks, or every pass would use up its looks on them.
      for (std::size_t skipped = 0; skipped <= adoption_from; ++skipped) {
        if (look_next_ == nullptr) look_next_ = used_;
        if (look_next_ == nullptr) return nullptr;
        seen = look_next_;
        look_next_ = seen->next;
        if (seen->process_id == process) break;
      }
      if (seen->process_id != process) continue;
      thread = seen->thread_id;
    }
    if (os::thread_exists(process, thread)) continue;
    os::lock_guard guard(lock_, *this);
    for (thread_cache* c = used_; c != nullptr; c = c->next) {
      // Another thread may have adopted it meanwhile.
      if (c == seen && c->thread_id == thread && c->process_id == process && !c->ended && !c->claimed()) {
        unlink_locked(c);
        return c;
      }
    }
  }
  return nullptr;
}

thread_cache* thread_cache_registry::create(bool* adopted) {
  thread_cache* cache = nullptr;
  std::size_t forks = 0;
  {
    os::lock_guard guard(lock_, *this);
    forks = forks_;
    if (resting_ != nullptr) {
      cache = chain::pop(resting_);
      const std::size_t left = resting_count_.load(std::memory_order_relaxed) - 1;
      resting_count_.store(left, std::memory_order_relaxed);
      rested_ = std::min(rested_, left);
    } else if (unused_ != nullptr) {
      cache = chain::pop(unused_);
    } else if (void* const memory = chain::pop(abandoned_)) {
      cache = new (memory) thread_cache(central_, budget_);
    }
  }
  if (cache == nullptr) {
    cache = adopt();
    if (adopted != nullptr) *adopted = cache != nullptr;
  }
  if (cache != nullptr) cache->forget_traffic();
  if (cache == nullptr) {
    void* memory = central_.metadata().allocate(sizeof(thread_cache), alignof(thread_cache));
    if (memory == nullptr) return nullptr;
    cache = new (memory) thread_cache(central_, budget_);
  }
  begin_use(cache, forks);
  return cache;
}

thread_cache* thread_cache_registry::adopt_ended() {
  const std::size_t forks = forks_now();
  thread_cache* const cache = adopt();
  if (cache == nullptr) return nullptr;
  cache->forget_traffic();
  begin_use(cache, forks);
  return cache;
}

std::size_t thread_cache_registry::forks_now() {
  os::lock_guard guard(lock_, *this);
  return forks_;
}

// Makes the calling thread the owner of a cache that is in no list, as it has been since `forks` was forks_.
void thread_cache_registry::begin_use(thread_cache* cache, std::size_t forks) {
  set_owner(cache);
  own_ = cache;
  std::size_t others = 0;
  {
    os::lock_guard guard(lock_, *this);
    chain::insert(used_, cache);
    // In a child that a signal handler has forked meanwhile, keep_only() has not seen this cache.
    if (forks != forks_) budget_.used.fetch_add(cache->capacity_bytes(), std::memory_order_relaxed);
    others = budget_.caches.fetch_add(1, std::memory_order_relaxed);
    if (others == 0) cache->home = central_.homes().enter();
  }
  if (others != 0) {
    if constexpr (hardened_build) budget_.has_had_several.store(true, std::memory_order_relaxed);
    os::note_threads_allowed();
    const unsigned node = os::this_node();
    os::lock_guard guard(lock_, *this);
    cache->home = central_.homes().enter(node);
  }
}

void thread_cache_registry::destroy(thread_cache* cache) {
  const std::size_t bytes = cache->cached_bytes();
  bool rests = false;
  {
    os::lock_guard guard(lock_, *this);
    cache->ended = true;
    // The thread that has claimed it does the rest.
    if (cache->claimed()) {
      own_ = nullptr;
      return;
    }
    // The hardened build's quarantine belongs to the thread.
    rests = !hardened_build && bytes <= most_at_rest && cache->capacity_bytes() <= most_capacity_at_rest &&
            has_room_to_rest();
    if (rests) rest_locked(cache);
  }
  if (rests) {
    if (bytes >= worth_emptying) central_.wake_decay();
    return;
  }
  cache->flush_all();
  os::lock_guard guard(lock_, *this);
  retire_locked(cache);
}

void thread_cache_registry::rest_locked(thread_cache* cache) {
  unlink_locked(cache);
  cache->ended = false;
  chain::push(resting_, cache);
  resting_count_.store(resting_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void thread_cache_registry::retire_locked(thread_cache* cache) {
  unlink_locked(cache);
  cache->ended = false;
  chain::push(unused_, cache);
}

void thread_cache_registry::empty_idle_caches() {
  lock_.lock();
  for (thread_cache* cache = used_; cache != nullptr;) {
    if (cache->ended || !cache->seems_idle() || cache->cached_bytes() < worth_emptying) {
      cache = cache->next;
      continue;
    }
    // While the cache is claimed, it stays in the list: the walk can continue from it.
    cache->claim();
    lock_.unlock();
    cache->empty_while_idle();
    lock_.lock();
    cache->end_claim();
    thread_cache* const next = cache->next;
    if (cache->ended) {
      cache->flush_all();
      retire_locked(cache);
    }
    cache = next;
  }
  lock_.unlock();
}

void thread_cache_registry::empty_resting(bool all) {
  if (!has_resting()) return;
  os::lock_guard guard(lock_, *this);
  std::size_t kept = all ? 0 : resting_count_.load(std::memory_order_relaxed) - rested_;
  resting_count_.store(kept, std::memory_order_relaxed);
  rested_ = kept;
  thread_cache** last = &resting_;
  for (; kept != 0; --kept) last = &(*last)->next;
  thread_cache* cache = std::exchange(*last, nullptr);
  while (thread_cache* const idle = chain::pop(cache)) {
    idle->flush_all();
    chain::push(unused_, idle);
  }
}

bool thread_cache_registry::expire_countdowns() {
  os::lock_guard guard(lock_, *this);
  bool all = true;
  for (thread_cache* const list : {used_, resting_, unused_}) {
    for (thread_cache* c = list; c != nullptr; c = c->next) all = c->expire_countdowns() && all;
  }
  return all;
}

void thread_cache_registry::keep_only(thread_cache* mine) {
  os::lock_guard guard(lock_, *this);
  for (thread_cache* c = used_; mine == nullptr && c != nullptr; c = c->next) {
    if (c == own_) mine = c;
  }
  own_ = mine;
  thread_cache* others = std::exchange(used_, nullptr);
  look_next_ = nullptr;
  central_.homes().forget();
  budget_.caches.store(mine != nullptr ? 1 : 0, std::memory_order_relaxed);
  ++forks_;
  // The resting caches are whole: their threads had ended, and fork held the lock.
  std::size_t capacity = mine != nullptr ? mine->capacity_bytes() : 0;
  for (const thread_cache* c = resting_; c != nullptr; c = c->next) capacity += c->capacity_bytes();
  budget_.used.store(capacity, std::memory_order_relaxed);
  while (thread_cache* const cache = chain::pop(others)) {
    if (cache != mine) {
      chain::push(abandoned_, cache);
      continue;
    }
    cache->forget_claim();
    set_owner(cache);
    chain::insert(used_, cache);
    cache->home = central_.homes().enter();
  }
}

}  // namespace tarn
