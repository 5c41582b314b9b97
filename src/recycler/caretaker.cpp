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

enum class phase : std::uint8_t { absent, running, refused, stopped };

constinit os::mutex lock{os::lock_rank::caretaker};
std::atomic<phase> now{phase::absent};  // written under the lock
os::futex_word alarm{0};                // changes when there is something new to look at
os::futex_word alive{0};                // 1 while the thread runs the program's code, or may
std::atomic<std::int64_t> lent_ms{0};
std::atomic<std::uint32_t> holds{0};
std::atomic<bool> start_after_hold{false};
std::atomic<long> thread_number{0};  // of the last one

// Pressure is looked for so often.
constexpr std::int64_t longest_sleep_ms = 1000;
// The process does not wait longer for a destructor that does not end.
constexpr std::int64_t longest_farewell_ms = 1000;

void ring() {
  alarm.fetch_add(1, std::memory_order_relaxed);
  os::futex_wake(&alarm, INT_MAX);
}

// Whether a hold keeps the thread away; then its release starts one.
bool is_held() {
  if (holds.load(std::memory_order_relaxed) == 0) return false;
  start_after_hold.store(true, std::memory_order_relaxed);
  full_fence();  // partner: the one in release()
  return holds.load(std::memory_order_relaxed) != 0;
}

void* thread_main(void* /*nothing*/) {
  thread_number.store(os::system_call(SYS_gettid), std::memory_order_relaxed);
  for (;;) {
    const std::uint32_t seen = alarm.load(std::memory_order_relaxed);
    const bool goes_on =
        now.load(std::memory_order_relaxed) == phase::running && holds.load(std::memory_order_relaxed) == 0;
    const std::int64_t next =
        goes_on ? recycler_registry::end_due_generations(os::now_ms(), os::under_pressure()) : -1;
    bool ends = false;
    {
      os::lock_guard guard(lock);
      const bool stopped = now.load(std::memory_order_relaxed) == phase::stopped;
      ends = stopped || is_held() || (next < 0 && alarm.load(std::memory_order_relaxed) == seen);
      if (ends && !stopped) now.store(phase::absent, std::memory_order_relaxed);
      // release: partner of the acquire in stop(): the program's code is left.
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

// With all signals blocked: no handler of the program's runs on it.
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

// Until the thread has left the program's code. False: it is in a destructor that does not end.
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
    now.store(phase::stopped, std::memory_order_relaxed);
    ring();
  }
  await_farewell();
}

}  // namespace

void wake() {
  {
    os::lock_guard guard(lock);
    switch (now.load(std::memory_order_relaxed)) {
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
    full_fence();  // partner: the one in hold(). Either it waits for the thread, or we see the hold.
    if (is_held()) {
      alive.store(0, std::memory_order_relaxed);
      return;
    }
    now.store(phase::running, std::memory_order_relaxed);
  }
  // Without the lock: it may allocate.
  if (start()) return;
  os::lock_guard guard(lock);
  alive.store(0, std::memory_order_relaxed);
  if (now.load(std::memory_order_relaxed) == phase::running)
    now.store(phase::refused, std::memory_order_relaxed);
}

void lend_a_hand() {
  const phase p = now.load(std::memory_order_relaxed);
  if (TARN_LIKELY(p == phase::running) || p == phase::stopped) return;
  const std::int64_t ms = os::now_ms();
  std::int64_t last = lent_ms.load(std::memory_order_relaxed);
  constexpr std::int64_t least_pause_ms = 10;
  if (ms - last < least_pause_ms || !lent_ms.compare_exchange_strong(last, ms, std::memory_order_relaxed))
    return;
  recycler_registry::end_due_generations(ms, os::under_pressure());
}

void stop_at_exit() {
  static constinit std::atomic<bool> registered{false};
  if (registered.exchange(true, std::memory_order_relaxed)) return;
  // If there is no room for it, the thread ends with the process.
  static_cast<void>(std::atexit(stop));
}

void hold() {
  holds.fetch_add(1, std::memory_order_relaxed);
  full_fence();  // partner: the one in wake()
  if (alive.load(std::memory_order_relaxed) == 0) return;
  // A destructor of the program's that makes the call itself would wait for its own end.
  const long self = os::system_call(SYS_gettid);
  if (self == thread_number.load(std::memory_order_relaxed)) return;
  ring();
  if (await_farewell()) os::await_end_of_thread(thread_number.load(std::memory_order_relaxed));
}

void release() {
  // None in a child that was made between hold() and here: see after_fork_in_child().
  std::uint32_t count = holds.load(std::memory_order_relaxed);
  while (count != 0 && !holds.compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) {
  }
  if (count != 1) return;
  full_fence();  // partner: the one in is_held(). Either we see its wish, or it sees that there is no hold.
  if (!start_after_hold.exchange(false, std::memory_order_relaxed)) return;
  if (!os::is_above_interrupted_section()) wake();
}

os::mutex& fork_lock() { return lock; }

void after_fork_in_child() {
  holds.store(0, std::memory_order_relaxed);
  alive.store(0, std::memory_order_relaxed);
  if (now.load(std::memory_order_relaxed) == phase::running)
    now.store(phase::absent, std::memory_order_relaxed);
}

}  // namespace tarn::caretaker
