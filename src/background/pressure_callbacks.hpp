// SPDX-License-Identifier: MIT
// pressure_callbacks: what the program wants to be called when memory is above its soft limit (tarn_on_pressure). The
// caretaker's thread calls them: it is one of libc's, and holds no lock, neither of tarn nor of the program.
//
// The program owns the structures and keeps them in place while they are registered. Thread safety: any thread; the lock
// is not held while a callback runs, which may register and remove callbacks, also itself.
// Invariants whenever the lock is free (validate()): count_ is the length of the list; next_ is null or in the list;
// while running_ is not null a thread is the runner_.
#pragma once

#include <atomic>
#include <cstddef>

#include "os/futex.hpp"
#include "os/mutex.hpp"
#include "tarn/malloc.h"

namespace tarn {

class pressure_callbacks {
 public:
  constexpr pressure_callbacks() = default;

  // At the end of the list. A structure that is in the list already is not added again.
  void add(tarn_pressure_callback& callback);
  // Waits until a call that runs has returned, unless the calling thread makes it.
  void remove(tarn_pressure_callback& callback);
  // Calls all, in order. Not by two threads at once.
  void call_all(const tarn_pressure& now);
  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  // In the child, whose only thread may be in a callback that has forked.
  void after_fork_in_child() TARN_NOT_ANALYZED;
  void validate_locked() const TARN_REQUIRES(lock_);

 private:
  friend class pressure_callbacks_test_access;

  tarn_pressure_callback* take_next();
  void end_call();

  mutable os::mutex lock_{os::lock_rank::caretaker};
  tarn_pressure_callback* first_ TARN_GUARDED_BY(lock_) = nullptr;
  tarn_pressure_callback* next_ TARN_GUARDED_BY(lock_) = nullptr;  // to be called next
  tarn_pressure_callback* running_ TARN_GUARDED_BY(lock_) = nullptr;
  void* runner_ TARN_GUARDED_BY(lock_) = nullptr;
  std::atomic<std::size_t> count_{0};  // written under the lock
  os::futex_word calls_{0};            // that have ended
};

}  // namespace tarn
