// SPDX-License-Identifier: MIT
// mutex: a lock of eight bytes that stores its holder and needs no initialisation, no destruction and no libc.
//
// It spins for a bounded time and then sleeps, so a high-priority thread never spins forever for a holder that it
// preempts. Critical sections are short and make no system call. Locks are taken in the order of their ranks (lowest
// first), which the checked build verifies: see lock_rank.
//
// The word:
//
//    63                              4     3        2         1          0
//   +---------------------------------+---------+--------+---------+-----------+
//   |  holder's thread pointer / 16   | awaited | nested | forking | contended |    all 0: free
//   +---------------------------------+---------+--------+---------+-----------+
//
// Lock and holder change in one atomic step, so a signal handler can tell at any moment which locks its own thread
// holds.
//
// fork takes all locks and marks them `forking`. The thread that forks may lock such a lock again, once (`nested`),
// because the structure is consistent then: other libraries' fork handlers allocate, and the child's structures are
// repaired. Locks that the thread held before, when a signal handler forks, are left alone.
// Invariants: word == 0 if it has no holder; nested only with forking (validate()).
// While a thread waits for a lock, the structures guarded by its other locks are consistent; see take_for_fork().
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "base/architecture.hpp"
#include "base/compiler.hpp"
#include "base/thread_safety.hpp"
#include "os/futex.hpp"
#include "os/invariant.hpp"
#include "os/probe.hpp"

namespace tarn::os {

// Whether the process is a child that the thread's signal handler has forked amid a critical section. The section's end,
// which passes through unlock_slow(), then calls the function, which is defined in engine/fork.cpp.
inline constinit thread_local bool is_fork_unfinished = false;
void finish_fork_in_child();

// Whether the thread has released a lock that another one slept for, since this was cleared: a thread that takes locks over and
// over would otherwise have the next one again before the other runs (background_thread_must_end()).
inline constinit thread_local bool has_woken_waiter = false;

// A lock without a rank, free when zeroed. `FinishesFork`: the end of a section finishes a fork in the child.
template <bool FinishesFork>
class TARN_CAPABILITY basic_mutex {
 public:
  constexpr basic_mutex() = default;
  basic_mutex(const basic_mutex&) = delete;
  basic_mutex& operator=(const basic_mutex&) = delete;

  // The analysis cannot follow the bodies of lock() and unlock(); their annotations say what they do.
  void lock() TARN_ACQUIRE() TARN_NOT_ANALYZED {
    // try_lock() acquires: this thread sees what the last holder wrote before its unlock().
    if (TARN_UNLIKELY(!try_lock(self()))) lock_slow();
  }

  void unlock() TARN_RELEASE() TARN_NOT_ANALYZED {
    word_type expected = self();
    // release: partner of the acquire in try_lock().
    if (TARN_UNLIKELY(!word_.compare_exchange_strong(expected, 0, std::memory_order_release,
                                                     std::memory_order_relaxed))) {
      unlock_slow();
    }
  }

  void validate() const {
    const word_type word = word_.load(std::memory_order_relaxed);
    TARN_INVARIANT("mutex", this, word == 0 || (word & ~flags) != 0);
    TARN_INVARIANT("mutex", this, (word & nested) == 0 || (word & forking) != 0);
  }

  // ---- for fork only; the analysis does not see these locks ----

  // Takes the lock for fork, unless the calling thread holds it already. If the holder does not release it for some
  // time, calls may_give_up() and returns without the lock if the answer is true: the calling thread is then in a
  // signal handler that has interrupted a critical section of another lock, for which the holder of this one waits,
  // and may_give_up() has marked that lock.
  // In each section that it interrupts, the thread waits so long once, and a fifth of that for each further holder that
  // keeps its lock, however often it forks before the section goes on: a handler that runs more often than that would
  // otherwise stop the program. No lock is given up unawaited: its holder may be changing what the lock guards.
  template <class MayGiveUp>
  void take_for_fork(MayGiveUp may_give_up) {
    constexpr std::int64_t patience_ms = 50;
    constexpr std::int64_t later_patience_ms = 10;
    const word_type wanted = self() | forking;
    if (try_lock(wanted) || is_mine(word_.load(std::memory_order_relaxed))) return;
    while (!try_lock(wanted | contended)) {
      const bool again = has_waited_for_section;
      const word_type holder = word_.load(std::memory_order_relaxed) & ~flags;
      if (!(again && is_awaited()) && sleep(again ? later_patience_ms : patience_ms)) continue;
      has_waited_for_section = may_give_up();
      // If the holder has changed meanwhile, the new one is waited for, too.
      if (has_waited_for_section && mark_awaited(holder)) return;
    }
  }
  // Releases what take_for_fork() took.
  void release_for_fork() {
    if (is_held_by_fork()) release();
  }
  // Whether fork holds the lock: what it guards is consistent.
  [[nodiscard]] bool is_held_by_fork() const {
    const word_type word = word_.load(std::memory_order_relaxed);
    return is_mine(word) && (word & forking) != 0;
  }
  // In the child: frees the lock if its holder is another thread, which does not exist here.
  void drop_foreign_holder() {
    if (!is_mine(word_.load(std::memory_order_relaxed))) word_.store(0, std::memory_order_relaxed);
  }
  // Whether the calling thread was interrupted in a critical section of this lock.
  [[nodiscard]] bool is_interrupted() const {
    const word_type word = word_.load(std::memory_order_relaxed);
    return is_mine(word) && (word & forking) == 0;
  }
  // The same. If so, the end of that section passes through unlock_slow(), as if a thread waited for the lock.
  bool is_interrupted_and_marked() {
    if (!is_interrupted()) return false;
    word_.fetch_or(contended, std::memory_order_relaxed);
    return true;
  }

 private:
  using word_type = std::uintptr_t;
  static_assert(sizeof(word_type) == 8 && std::endian::native == std::endian::little);
  static constexpr word_type contended = 1;  // a thread may sleep
  static constexpr word_type forking = 2;    // held by fork
  static constexpr word_type nested = 4;     // held by fork and locked again by the thread that forks
  static constexpr word_type awaited = 8;    // a fork has waited for the holder and gone on without the lock
  static constexpr word_type flags = 15;     // thread pointers are multiples of 16
  static constexpr int spin_limit = 200;

  // Whether the calling thread has given up a lock since it entered the section that its signal handlers interrupt.
  // unlock_slow() clears it, which the end of that section passes through: see is_interrupted_and_marked().
  static inline constinit thread_local bool has_waited_for_section = false;

  [[nodiscard]] bool is_awaited() const { return (word_.load(std::memory_order_relaxed) & awaited) != 0; }
  // The flag goes when the holder releases the lock. False: another thread holds the lock now, or none does.
  bool mark_awaited(word_type holder) {
    word_type word = word_.load(std::memory_order_relaxed);
    // Repeated: another thread that begins to wait may change a flag meanwhile.
    while (holder != 0 && (word & ~flags) == holder) {
      if (word_.compare_exchange_weak(word, word | awaited, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  static word_type self() { return reinterpret_cast<word_type>(__builtin_thread_pointer()) & ~flags; }
  static bool is_mine(word_type word) { return (word & ~flags) == self(); }

  bool try_lock(word_type wanted) {
    word_type expected = 0;
    // acquire: partner of the release in unlock() and release().
    return word_.compare_exchange_strong(expected, wanted, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  // Sleeps until the holder changes. False: the time is over; -1: no limit. The kernel compares the word's lower half.
  bool sleep(std::int64_t milliseconds) {
    word_type word = word_.load(std::memory_order_relaxed);
    if (word == 0) return true;
    if ((word & contended) == 0 &&
        !word_.compare_exchange_strong(word, word | contended, std::memory_order_relaxed)) {
      return true;
    }
    return futex_wait(reinterpret_cast<futex_word*>(&word_), static_cast<std::uint32_t>(word | contended),
                      milliseconds);
  }

  TARN_COLD void lock_slow() {
    const word_type word = word_.load(std::memory_order_relaxed);
    if (is_mine(word) && (word & forking) != 0) {
      word_.fetch_or(nested, std::memory_order_relaxed);
      return;
    }
    wait();
  }

  void wait() {
    for (int spin = 0; spin < spin_limit; ++spin) {
      if (word_.load(std::memory_order_relaxed) == 0 && try_lock(self())) return;
      arch::pause();
    }
    while (!try_lock(self() | contended)) {
      TARN_PROBE(lock_wait, this);
      sleep(-1);
    }
  }

  TARN_COLD void unlock_slow() {
    const word_type word = word_.load(std::memory_order_relaxed);
    if ((word & nested) != 0) {
      word_.fetch_and(~nested, std::memory_order_relaxed);
      return;
    }
    // Read again: a signal handler may have marked the lock since.
    const bool was_marked = (word_.load(std::memory_order_relaxed) & flags) != 0;
    release();
    if (!was_marked) return;
    has_waited_for_section = false;
    if constexpr (FinishesFork) {
      if (TARN_UNLIKELY(is_fork_unfinished)) finish_fork_in_child();
    }
  }

  void release() {
    // release: partner of the acquire in try_lock().
    if ((word_.exchange(0, std::memory_order_release) & contended) != 0) {
      futex_wake(reinterpret_cast<futex_word*>(&word_), 1);
      has_woken_waiter = true;
    }
  }

  std::atomic<word_type> word_{0};
};

// A lock that works without the rest of the engine.
using plain_mutex = basic_mutex<false>;

// The order in which one thread may take locks. Two locks of the same rank are held together only by fork, by walks
// over all caches or depots, and to move a span between depots; then in the order of the array or list.
enum class lock_rank : std::uint8_t {
  preparation,
  settings,
  registry,
  caretaker,
  recyclers,
  recycler,
  pools,
  scopes,
  scope,
  depot,
  page_heap,
  span_metadata,
  metadata,
  guarded,
  samples
};

#if TARN_CHECKS
// Bit r is set while the thread holds a lock of rank r, except locks taken by fork.
inline thread_local std::uint32_t held_ranks = 0;

class TARN_CAPABILITY mutex : public basic_mutex<true> {
 public:
  constexpr explicit mutex(lock_rank rank) : rank_(rank) {}
  void lock() TARN_ACQUIRE() TARN_NOT_ANALYZED {
    // Locks of the same rank may be held together; see lock_rank.
    const unsigned rank = static_cast<unsigned>(rank_);
    TARN_INVARIANT("mutex", this, held_ranks >> (rank + 1) == 0);
    basic_mutex::lock();
    held_ranks |= bit();
  }
  void unlock() TARN_RELEASE() TARN_NOT_ANALYZED {
    validate();
    // Two locks of one rank: the first unlock clears the bit. The check may miss an error then, but never reports a
    // false one.
    held_ranks &= ~bit();
    basic_mutex::unlock();
  }

 private:
  [[nodiscard]] std::uint32_t bit() const { return 1U << static_cast<unsigned>(rank_); }
  lock_rank rank_;
};
#else
class TARN_CAPABILITY mutex : public basic_mutex<true> {
 public:
  constexpr explicit mutex(lock_rank /*rank*/) {}
};
#endif

// Identifies the calling thread, also in its forked child.
inline void* this_thread() { return __builtin_thread_pointer(); }

struct no_structure {
  void validate_locked() const {}
};

// Holds a lock until the end of the scope. `guarded`: what the lock guards, whose equations hold whenever the lock is
// free (os/invariant.hpp). The analysis knows what a guard does by its annotations.
template <class Mutex, class Structure = no_structure>
class TARN_SCOPED_CAPABILITY lock_guard {
 public:
  explicit lock_guard(Mutex& m) TARN_ACQUIRE(m) TARN_NOT_ANALYZED : mutex_(m) { mutex_.lock(); }
  lock_guard(Mutex& m, const Structure& guarded) TARN_ACQUIRE(m) TARN_NOT_ANALYZED : mutex_(m),
                                                                                     guarded_(&guarded) {
    mutex_.lock();
  }
  ~lock_guard() TARN_RELEASE() TARN_NOT_ANALYZED {
    if (guarded_ != nullptr && is_check_due()) guarded_->validate_locked();
    mutex_.unlock();
  }
  lock_guard(const lock_guard&) = delete;
  lock_guard& operator=(const lock_guard&) = delete;

 private:
  Mutex& mutex_;
  const Structure* guarded_ = nullptr;
};

// A walk over locks for fork. Forwards, in the order of ranks, a list's lock comes before its members' locks, backwards
// after them; so no list changes while it is walked.
struct lock_walk {
  void (*visit)(mutex&);
  bool backwards = false;

  // Calls each part, which visits its locks; the last one first if the walk goes backwards.
  using part = void (*)(const lock_walk&);
  template <std::size_t count>
  void all(const part (&parts)[count]) const {
    for (std::size_t i = 0; i < count; ++i) parts[backwards ? count - 1 - i : i](*this);
  }

  template <class Members>
  void list(mutex& m, Members members) const {
    if (!backwards) visit(m);
    members();
    if (backwards) visit(m);
  }
};

}  // namespace tarn::os
