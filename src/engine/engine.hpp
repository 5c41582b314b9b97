// SPDX-License-Identifier: MIT
// engine: its preparation at load, the threads that use it, and what concerns all its tiers (instance.hpp).
//
// Thread safety: any thread.
#pragma once

#include "background/pressure.hpp"
#include "engine/instance.hpp"
#include "os/mutex.hpp"

namespace tarn::engine {

#pragma GCC visibility push(hidden)

// The calling thread's cache, created if necessary. Null: the thread is to use the processors' caches (processor_user.in_use),
// is about to end, or there is no memory; the caller may then use `central_tier` directly. `own`: it is to have a cache
// of its own, by which the thread can be told from others.
thread_cache* attach_thread(bool own = false);

// Moves all free objects that it can reach (the calling thread's, other threads' surplus, depots) into spans, and spare
// spans into the page heap.
void reclaim();

// reclaim(), and then gives free memory back to the system, except `keep` bytes of free pages; if nothing is to be kept,
// also idle pages of spans in use, which cannot be counted against `keep`. Returns the bytes given back.
std::size_t trim(std::size_t keep);

// Called by a thread that libc does not know (os/own_threads/thread.hpp) before it calls functions that look at the caller's cache: it
// has none, and gets none.
void begin_bare_thread();

// All that the calling thread has allocated and freed. Costs a walk over its size classes.
traffic traffic_of_thread();
// Stores it in *noted_traffic. Requires: that is not null.
void note_traffic();

// The tries of one request that has found no memory, each after memory has been given back. If the last request that
// looked everywhere did so in vain a moment ago (for up to 32 times as long as it looked, 250 ms at most), this one looks
// only for what its thread has freed since, and what has become idle in scopes and buffer pools: a program at its limit
// is refused in a time that does not depend on how much others have.
class gathering {
 public:
  // Gives memory back. False: there is no further try.
  bool goes_on();
  // The last try has failed, too.
  void end_in_vain() const;

 private:
  static constexpr int most_tries = 3;

  pressure::refused_request refused_;
  std::int64_t began_ = 0;
  int tries_ = 0;
  bool is_brief_ = false;
};

// For a request that has found no memory: take() after each try, which prepare() precedes, while it returns null.
template <class Take, class Prepare>
auto* take_after_reclaim(Take take, Prepare prepare) {
  decltype(take()) taken = nullptr;
  gathering tries;
  while (taken == nullptr) {
    prepare();
    if (!tries.goes_on()) break;
    taken = take();
  }
  if (taken == nullptr) tries.end_in_vain();
  return taken;
}

// take(), repeated after reclaim() while it returns null. Free objects in caches may make whole spans. Several tries,
// because another thread may be reclaiming at the same time and hold some of them.
template <class Take>
auto* take_or_reclaim(Take take) {
  auto* const taken = take();
  return TARN_LIKELY(taken != nullptr) ? taken : take_after_reclaim(take, [] {});
}

// Registers the fork handlers; only the first call has an effect. Call without a lock: it may allocate.
void register_fork_handlers();
// The fork handlers' work, for system calls that copy the process without running handlers. Any thread, also in signal
// handlers.
void before_copy();
void after_copy_in_parent();
void after_copy_in_child();
// Before a call that makes a child which shares this thread's memory and thread pointer. Async-signal-safe.
void before_vfork();
// For fork only. threads_attached(): the threads that have begun to attach, ever.
os::mutex& preparation_lock();
std::size_t threads_attached();

#pragma GCC visibility pop

}  // namespace tarn::engine
