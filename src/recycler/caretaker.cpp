// SPDX-License-Identifier: MIT
#include "recycler/caretaker.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>

#include "base/compiler.hpp"
#include "base/fence.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/memory_pressure.hpp"
#include "os/syscall.hpp"
#include "os/thread.hpp"
#include "recycler/recycler_registry.hpp"
#include "runtime/options.hpp"

namespace tarn::caretaker {
namespace {

// Of the thread: not started, running, impossible to start, or ended for good by stop().
enum class phase : std::uint8_t { absent, running, refused, stopped };

constinit os::mutex lock{os::lock_rank::caretaker};
std::atomic<phase> thread_phase{phase::absent};  // written under the lock
os::futex_word alarm{0};                         // changes to wake the thread
os::futex_word alive{0};  // 1 while the thread may run code of the program (destructors)
std::atomic<std::int64_t> last_inline_ms{0};
std::atomic<std::uint32_t> holds{0};        // calls of hold() without release()
std::atomic<bool> start_after_hold{false};  // a hold has kept a thread from starting
std::atomic<long> thread_number{0};         // the thread id of the thread started last

// The thread looks for memory pressure at least this often.
constexpr std::int64_t longest_sleep_ms = os::memory_watch::interval_ms;
// exit() and hold() wait no longer than this for a destructor that does not return.
constexpr std::int64_t longest_farewell_ms = 1000;

void ring() {
  alarm.fetch_add(1, std::memory_order_relaxed);
  os::futex_wake(&alarm, INT_MAX);
}

// Whether a hold forbids the thread; if so, the last release() starts one.
bool is_held() {
  if (holds.load(std::memory_order_relaxed) == 0) return false;
  start_after_hold.store(true, std::memory_order_relaxed);
  full_fence();  // partner: the full_fence() in release()
  return holds.load(std::memory_order_relaxed) != 0;
}

// Under memory pressure all generations are due. Returns the milliseconds until the next one is; -1: none.
std::int64_t end_due_generations(std::int64_t now_ms) {
  os::process_memory.look(now_ms);
  return recycler_registry::end_due_generations(now_ms, os::process_memory.last().pressed);
}

void* thread_main(void* /*nothing*/) {
  thread_number.store(os::system_call(SYS_gettid), std::memory_order_relaxed);
  for (;;) {
    const std::uint32_t seen = alarm.load(std::memory_order_relaxed);
    const bool goes_on = thread_phase.load(std::memory_order_relaxed) == phase::running &&
                         holds.load(std::memory_order_relaxed) == 0;
    const std::int64_t next = goes_on ? end_due_generations(os::now_ms()) : -1;
    bool ends = false;
    {
      os::lock_guard guard(lock);
      const bool stopped = thread_phase.load(std::memory_order_relaxed) == phase::stopped;
      ends = stopped || is_held() || (next < 0 && alarm.load(std::memory_order_relaxed) == seen);
      if (ends && !stopped) thread_phase.store(phase::absent, std::memory_order_relaxed);
      // release: partner of the acquire in await_farewell(); the thread runs no code of the program any more.
      if (ends) alive.store(0, std::memory_order_release);
    }
    if (ends) {
      os::futex_wake(&alive, INT_MAX);
      return nullptr;
    }
    os::futex_wait(&alarm, seen,
                   next < 0 ? longest_sleep_ms : std::clamp<std::int64_t>(next, 1, longest_sleep_ms));
  }
}

// Starts the thread with all signals blocked, so that no signal handler of the program runs on it.
bool start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_t thread;
  bool started = pthread_attr_init(&attributes) == 0;
  if (started) {
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    started = pthread_create(&thread, &attributes, thread_main, nullptr) == 0;
    pthread_attr_destroy(&attributes);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

// Waits until the thread runs no code of the program. False: it is still in a destructor after longest_farewell_ms.
bool await_farewell() {
  const std::int64_t until = os::now_ms() + longest_farewell_ms;
  // acquire: partner of the release in thread_main().
  while (alive.load(std::memory_order_acquire) != 0) {
    if (os::now_ms() >= until) return false;
    os::futex_wait(&alive, 1, 10);
  }
  return true;
}

void stop() {
  {
    os::lock_guard guard(lock);
    thread_phase.store(phase::stopped, std::memory_order_relaxed);
    ring();
  }
  await_farewell();
}

}  // namespace

void wake() {
  {
    os::lock_guard guard(lock);
    switch (thread_phase.load(std::memory_order_relaxed)) {
      case phase::running:
        ring();
        return;
      case phase::refused:
      case phase::stopped:
        return;
      case phase::absent:
        break;
    }
    if (options::background_choice() == options::background::off || os::in_sandbox()) return;
    alive.store(1, std::memory_order_relaxed);
    // Partner: the full_fence() in hold(). Either hold() sees `alive`, and waits, or is_held() sees the hold.
    full_fence();
    if (is_held()) {
      alive.store(0, std::memory_order_relaxed);
      return;
    }
    thread_phase.store(phase::running, std::memory_order_relaxed);
  }
  // Without the lock, because pthread_create() may allocate.
  if (start()) return;
  os::lock_guard guard(lock);
  alive.store(0, std::memory_order_relaxed);
  if (thread_phase.load(std::memory_order_relaxed) == phase::running)
    thread_phase.store(phase::refused, std::memory_order_relaxed);
}

void run_inline_if_no_thread() {
  const phase p = thread_phase.load(std::memory_order_relaxed);
  if (TARN_LIKELY(p == phase::running) || p == phase::stopped) return;
  const std::int64_t ms = os::now_ms();
  std::int64_t last = last_inline_ms.load(std::memory_order_relaxed);
  constexpr std::int64_t least_pause_ms = 10;
  if (ms - last < least_pause_ms ||
      !last_inline_ms.compare_exchange_strong(last, ms, std::memory_order_relaxed))
    return;
  end_due_generations(ms);
}

void stop_at_exit() {
  static constinit std::atomic<bool> registered{false};
  if (registered.exchange(true, std::memory_order_relaxed)) return;
  // If atexit() fails, the thread runs until the process ends.
  static_cast<void>(std::atexit(stop));
}

void hold() {
  holds.fetch_add(1, std::memory_order_relaxed);
  full_fence();  // partner: the full_fence() in wake()
  if (alive.load(std::memory_order_relaxed) == 0) return;
  // A destructor that runs on the thread may make the held call; it must not wait for its own end.
  const long self = os::system_call(SYS_gettid);
  if (self == thread_number.load(std::memory_order_relaxed)) return;
  ring();
  if (await_farewell()) os::await_end_of_thread(thread_number.load(std::memory_order_relaxed));
}

void release() {
  // The count may be 0 in a child forked between hold() and release(): after_fork_in_child() resets it.
  std::uint32_t count = holds.load(std::memory_order_relaxed);
  while (count != 0 && !holds.compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) {
  }
  if (count != 1) return;
  // Partner: the full_fence() in is_held(). Either this thread sees start_after_hold, or is_held() sees no hold.
  full_fence();
  if (!start_after_hold.exchange(false, std::memory_order_relaxed)) return;
  if (!os::is_above_interrupted_section()) wake();
}

os::mutex& fork_lock() { return lock; }

void after_fork_in_child() {
  holds.store(0, std::memory_order_relaxed);
  alive.store(0, std::memory_order_relaxed);
  if (thread_phase.load(std::memory_order_relaxed) == phase::running)
    thread_phase.store(phase::absent, std::memory_order_relaxed);
}

}  // namespace tarn::caretaker
