// SPDX-License-Identifier: MIT
#include "background/caretaker.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>

#include "background/decay.hpp"
#include "background/pressure.hpp"
#include "background/pressure_callbacks.hpp"
#include "background/reclaim.hpp"
#include "base/compiler.hpp"
#include "base/fence.hpp"
#include "engine/engine.hpp"
#include "engine/front.hpp"
#include "engine/options.hpp"
#include "os/clock.hpp"
#include "os/errno_keeper.hpp"
#include "os/futex.hpp"
#include "os/own_threads/thread.hpp"
#include "os/syscall.hpp"

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
// The thread id of the thread started last; 0: it is known to be gone. The thread outlives `alive`, as destructors of
// its thread-local data run when thread_main() has returned.
std::atomic<long> thread_number{0};
constinit pressure_callbacks callbacks;

// The thread looks for memory pressure at least this often.
constexpr std::int64_t longest_sleep_ms = pressure::interval_ms;
// While memory is above the soft limit or near it, and the program has callbacks, it does so more often.
constexpr std::int64_t pause_near_limit_ms = 100;
constexpr std::uint64_t near_limit_divisor = 4;
// A change of what is used by less than this part is none.
constexpr std::uint64_t least_change_divisor = 512;
// exit() and hold() wait no longer than this for a destructor that does not return.
constexpr std::int64_t longest_wait_ms = 1000;

// What the alarm's word grows by if the next call must not wait: the heap has grown above the soft limit, or there is a new
// callback. (After so many other rings a call is early.)
constexpr std::uint32_t urgent = std::uint32_t{1} << 16;

// When callbacks may be called again. After a call that has changed nothing the pause doubles: the next one would free no
// more. Owner: the thread.
class call_schedule {
 public:
  // The milliseconds until the next call may begin.
  [[nodiscard]] std::int64_t left(std::int64_t now_ms) const {
    return std::clamp<std::int64_t>(next_ms_ - now_ms, 0, longest_sleep_ms);
  }
  void note_call(std::int64_t now_ms, std::uint64_t used) {
    const std::uint64_t change = used > used_ ? used - used_ : used_ - used;
    pause_ms_ = change < used / least_change_divisor ? std::min(2 * pause_ms_, longest_sleep_ms)
                                                     : pause_near_limit_ms;
    used_ = used;
    next_ms_ = now_ms + pause_ms_;
  }

  // Whether somebody has rung since the last question for a call that does not wait.
  bool take_urgency(std::uint32_t alarm_now) {
    const bool is_urgent = alarm_now / urgent != seen_ / urgent;
    seen_ = alarm_now;
    return is_urgent;
  }

 private:
  std::int64_t next_ms_ = 0;
  std::uint32_t seen_ = 0;  // of the alarm's word, at the last question
  std::int64_t pause_ms_ = pause_near_limit_ms;
  std::uint64_t used_ = 0;  // after the last call
};
constinit call_schedule schedule;

void ring(std::uint32_t by = 1) {
  alarm.fetch_add(by, std::memory_order_relaxed);
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
  pressure::process.look(now_ms);
  return engine::recycler_front.run_due(now_ms, pressure::process.now() != pressure::level::calm);
}

tarn_pressure as_public(const pressure::verdict& v, bool refused) {
  const std::uint64_t level = refused ? 2 : v.now == pressure::level::above_soft ? 1 : 0;
  return {level, v.used, v.soft, v.hard, v.excess};
}

// Calls the program's callbacks if memory is above the soft limit, or a request has been refused. Returns the
// milliseconds until the next look; -1: there are no callbacks.
std::int64_t run_callbacks(std::int64_t now_ms, std::uint32_t alarm_now) {
  if (callbacks.empty()) return -1;
  pressure::verdict v = pressure::process.last();
  const bool refused = pressure::take_refusals() != 0;
  const bool is_urgent = schedule.take_urgency(alarm_now);
  if (!refused && !is_urgent && schedule.left(now_ms) != 0) {
    pressure::end_round();
    return schedule.left(now_ms);
  }
  if (v.soft != os::unlimited) v = pressure::process.look_now();
  if (v.now == pressure::level::above_soft || refused) {
    callbacks.call_all(as_public(v, refused));
    // What they have freed lies in this thread's cache and in spans.
    engine::reclaim();
    pressure::trim_excess();
    decay::relieve_soon();
    v = pressure::process.look_now();
    schedule.note_call(os::now_ms(), v.used);
    if (v.now == pressure::level::above_soft) {
      pressure::end_round();
      return schedule.left(os::now_ms());
    }
  }
  pressure::end_round();
  const bool is_near = v.soft != os::unlimited && v.used >= v.soft - v.soft / near_limit_divisor;
  return is_near ? pause_near_limit_ms : longest_sleep_ms;
}

// What the thread does each time. Returns the milliseconds until the next time; -1: nothing is left to do.
std::int64_t run_pass(std::int64_t now_ms, std::uint32_t alarm_now) {
  const std::int64_t generations = end_due_generations(now_ms);
  const std::int64_t looks = run_callbacks(now_ms, alarm_now);
  return looks < 0 || (generations >= 0 && generations < looks) ? generations : looks;
}

void* thread_main(void* /*nothing*/) {
  thread_number.store(os::system_call(SYS_gettid), std::memory_order_relaxed);
  pressure::set_runner(true);
  for (;;) {
    const std::uint32_t seen = alarm.load(std::memory_order_relaxed);
    const bool goes_on = thread_phase.load(std::memory_order_relaxed) == phase::running &&
                         holds.load(std::memory_order_relaxed) == 0;
    pressure::set_rounds(goes_on && !callbacks.empty());
    const std::int64_t next = goes_on ? run_pass(os::now_ms(), seen) : -1;
    bool ends = false;
    {
      os::lock_guard guard(lock);
      const bool stopped = thread_phase.load(std::memory_order_relaxed) == phase::stopped;
      ends = stopped || is_held() || (next < 0 && alarm.load(std::memory_order_relaxed) == seen);
      if (ends && !stopped) thread_phase.store(phase::absent, std::memory_order_relaxed);
      if (ends) pressure::set_rounds(false);
      // release: partner of the acquire in wait_until_idle(); the thread runs no code of the program any more.
      if (ends) alive.store(0, std::memory_order_release);
    }
    if (ends) {
      pressure::set_runner(false);
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

// Waits until the thread runs no code of the program. False: it is still in a destructor after longest_wait_ms.
bool wait_until_idle() {
  const std::int64_t until = os::now_ms() + longest_wait_ms;
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
  wait_until_idle();
}

}  // namespace

void wake() {
  {
    os::lock_guard guard(lock);
    switch (thread_phase.load(std::memory_order_relaxed)) {
      case phase::running: ring(); return;
      case phase::refused:
      case phase::stopped: return;
      case phase::absent: break;
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

void notice_pressure() {
  if (thread_phase.load(std::memory_order_relaxed) == phase::running) ring(urgent);
}

bool is_running() { return thread_phase.load(std::memory_order_relaxed) == phase::running; }

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
  const long number = thread_number.load(std::memory_order_relaxed);
  if (alive.load(std::memory_order_relaxed) == 0 && (number == 0 || os::in_sandbox())) return;
  // A destructor that runs on the thread may make the held call; it must not wait for its own end.
  if (os::system_call(SYS_gettid) == number) return;
  ring();
  if (!wait_until_idle()) return;
  long ended = thread_number.load(std::memory_order_relaxed);
  os::await_end_of_thread(ended);
  thread_number.compare_exchange_strong(ended, 0, std::memory_order_relaxed);
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

void walk_locks(const os::lock_walk& walk) {
  walk.list(lock, [&walk] { walk.visit(callbacks.lock()); });
}

void after_fork_in_child() {
  holds.store(0, std::memory_order_relaxed);
  alive.store(0, std::memory_order_relaxed);
  thread_number.store(0, std::memory_order_relaxed);
  callbacks.after_fork_in_child();
  pressure::set_rounds(false);
  pressure::set_runner(false);
  if (thread_phase.load(std::memory_order_relaxed) == phase::running)
    thread_phase.store(phase::absent, std::memory_order_relaxed);
}

}  // namespace tarn::caretaker

// ---- the functions of tarn/malloc.h ----

using namespace tarn;

int tarn_on_pressure(tarn_pressure_callback* callback) noexcept {
  const os::errno_keeper keeper;
  engine::attach_thread();
  engine::attach(engine::recycler_front);
  caretaker::stop_at_exit();
  caretaker::callbacks.add(*callback);
  caretaker::alarm.fetch_add(caretaker::urgent, std::memory_order_relaxed);
  caretaker::wake();
  return caretaker::is_running() ? 1 : 0;
}

void tarn_off_pressure(tarn_pressure_callback* callback) noexcept {
  const os::errno_keeper keeper;
  caretaker::callbacks.remove(*callback);
}

void tarn_get_pressure(tarn_pressure* out) noexcept {
  const os::errno_keeper keeper;
  engine::attach_thread();
  *out = caretaker::as_public(pressure::process.look_now(), false);
  if (!caretaker::callbacks.empty()) caretaker::wake();
}
