// SPDX-License-Identifier: MIT
#include "os/own_threads/thread.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <new>

#include "base/fence.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/memory_calls.hpp"
#include "os/mutex.hpp"
#include "os/own_threads/clone_thread.hpp"
#include "os/own_threads/thread_memory.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

// A child inherits this variable, unlike the control page, so tokens differ between parent and child.
std::atomic<hold_token> last_token{0};

extern "C" [[noreturn, gnu::used]] void tarn_engine_thread_main(long which) {
  if (which == static_cast<long>(engine_thread::control)) {
    control_thread_body();
  } else {
    background_thread_body();
  }
  for (;;) system_call(SYS_exit, 0);
}

// Called by the starting thread, not by the new thread itself: next to a real-time thread on the same processor the new
// thread might not run at all before.
void give_ordinary_scheduling(long thread) {
  if (!at_load->is_known) return;
  constexpr long reset_on_fork = 0x40000000;
  constexpr long fifo = 1;
  constexpr long round_robin = 2;
  const long policy = system_call(SYS_sched_getscheduler, 0) & ~reset_on_fork;
  if (policy == fifo || policy == round_robin) {
    const int priority = 0;
    system_call(SYS_sched_setscheduler, thread, 0, &priority);
  }
  if (nice_of_this_thread() < at_load->nice)
    system_call(SYS_setpriority, PRIO_PROCESS, thread, at_load->nice);
  processor_set mine{};
  const long bytes = processors_of_this_thread(mine);
  if (bytes == at_load->processors_bytes &&
      std::memcmp(&mine, &at_load->processors, static_cast<std::size_t>(bytes)) != 0) {
    system_call(SYS_sched_setaffinity, thread, bytes, &at_load->processors);
  }
}

// Whether a hold keeps the thread away. If so, the release of the hold starts it.
bool is_held(thread_control* c, thread_state& t) {
  if (c->holds.load(std::memory_order_relaxed) == 0) return false;
  t.start_after_hold.store(1, std::memory_order_relaxed);
  full_fence();  // partner: the one in release_background_thread()
  return c->holds.load(std::memory_order_relaxed) != 0;
}

// False in a child that shares its parent's memory: a thread of the child would end with the child, perhaps while it
// holds one of our locks.
bool is_own_process(thread_control* c) {
  const long noted = c->process.load(std::memory_order_relaxed);
  if (noted != 0) return is_process(c, noted);
  note_process(c);
  return true;
}

// Starts a thread after state has been set to `running`. Returns its id, -errno if the system refuses, 0 if a hold
// keeps it away.
long start_claimed(thread_control* c, thread_state& t) {
  full_fence();  // partner: the one in hold_background_thread(). Either it waits for us, or we see its hold.
  if (is_held(c, t)) return 0;
  const auto which = static_cast<engine_thread>(&t - c->threads);
  if (const long failure = prepare_memory_of(which); failure != 0) return failure;
  char* const thread_pointer = thread_pointer_of(which);
  // The x86-64 ABI has the thread pointer point at itself.
  *reinterpret_cast<void**>(thread_pointer) = thread_pointer;
  t.rights_changed.store(false, std::memory_order_relaxed);
  if (at_load->is_known) t.of_first_thread = capabilities::of(c->process.load(std::memory_order_relaxed));
  const long thread =
      clone_thread(stack_top_of(which), thread_pointer, &t.thread, &t.state, static_cast<long>(which));
  if (thread > 0) give_ordinary_scheduling(thread);
  return thread;
}

// After a refusal the system may grant a thread later: process limits are shared by all processes of a user. The pause
// between two tries doubles.
void plan_next_try(thread_state& t, bool started) {
  constexpr std::int64_t shortest_ms = 100;
  constexpr std::int64_t longest_ms = 60000;
  if (started && t.next_try_ms.load(std::memory_order_relaxed) == 0) return;
  const std::int64_t last = t.pause_ms.load(std::memory_order_relaxed);
  const std::int64_t pause = started ? 0 : std::clamp(2 * last, shortest_ms, longest_ms);
  t.pause_ms.store(pause, std::memory_order_relaxed);
  t.next_try_ms.store(started ? 0 : now_ms() + pause, std::memory_order_relaxed);
}

// Runs with every signal blocked: no signal handler, which might want a hold, interrupts a claim, and the thread
// inherits the mask, so no handler ever runs on it.
bool start(thread_control* c, thread_state& t) {
  std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  bool is_there = is_own_process(c);
  std::uint32_t expected = none;
  // acquire: the last thread has left the stack; partner: the kernel's store.
  while (is_there && t.state.compare_exchange_strong(expected, running, std::memory_order_acquire,
                                                     std::memory_order_relaxed)) {
    const long thread = start_claimed(c, t);
    is_there = thread > 0;
    if (thread != 0) plan_next_try(t, is_there);
    if (is_there) break;
    t.state.store(none, std::memory_order_release);  // partner: the acquires in await_state() and above
    system_call(SYS_futex, &t.state, FUTEX_WAKE, INT_MAX);
    full_fence();  // partner: the one in release_background_thread(), which may have found our claim
    is_there = thread == 0 && c->holds.load(std::memory_order_relaxed) == 0;
  }
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
  return is_there;
}

bool may_start(const thread_state& t) {
  if (in_sandbox()) return false;
  const std::int64_t next_try = t.next_try_ms.load(std::memory_order_relaxed);
  return next_try == 0 || now_ms() >= next_try;
}

// Waits until done(state) is true, for `tries` times 10 ms at most.
template <class Done>
bool await_state(thread_state& t, int tries, Done done) {
  constexpr long timed_out = -110;
  const timespec limit{0, 10000000};
  for (;;) {
    // acquire: partner of the release in start(), and of the kernel's store.
    const std::uint32_t seen = t.state.load(std::memory_order_acquire);
    if (done(seen)) return true;
    const long result = system_call(SYS_futex, &t.state, FUTEX_WAIT, seen, &limit);
    if (result == timed_out && --tries <= 0) return false;
  }
}

}  // namespace

bool ensure_thread(engine_thread which) {
  thread_control* const c = at_load->control;
  if (c == nullptr) return false;
  thread_state& t = c->threads[static_cast<unsigned>(which)];
  if (!may_start(t) || is_held(c, t)) return false;
  full_fence();  // partner: the one in leave_thread(). Either we see `leaving`, or it sees our memory.
  std::uint32_t seen = t.state.load(std::memory_order_relaxed);
  if (seen == running || seen == wanted) return true;
  if (seen == leaving) {
    if (t.state.compare_exchange_strong(seen, wanted, std::memory_order_relaxed)) {
      constexpr int a_second = 100;
      // Waits for `not wanted`, not for `none`: a third thread may start the next one meanwhile.
      await_state(t, a_second, [](std::uint32_t state) { return state != wanted; });
    } else if (seen != none) {
      return true;  // the thread stays, or another caller starts the next one
    }
  }
  return start(c, t);
}

namespace {

// Of the thread that calls, or to which the call belongs.
thread_state& state_of(engine_thread which) {
  return at_load->control->threads[static_cast<unsigned>(which)];
}

bool has_other_rights(const thread_state& t) {
  return at_load->is_known &&
         !(capabilities::of(at_load->control->process.load(std::memory_order_relaxed)) == t.of_first_thread);
}

void ring_bell(thread_state& t) {
  // release: the thread sees the caller's request; partner: the acquire in sleep_in_background_thread().
  if (t.bell.exchange(1, std::memory_order_release) == 0) futex_wake(&t.bell, 1);
}

// The control thread sleeps until one of its descriptors is ready, so it is woken by a signal, which it has blocked
// and watches by a descriptor. Nobody else sees the signal: it is sent to this thread alone. Not to the id in `thread`,
// which may be that of a thread that has ended, and by now of one of the program's.
void send_wake_signal(const thread_control* c, const thread_state& t) {
  const int listener = t.listener.load(std::memory_order_relaxed);
  if (listener != 0)
    system_call(SYS_tgkill, c->process.load(std::memory_order_relaxed), listener, control_wake_signal);
}

void wake(const thread_control* c, thread_state& t) {
  if (&t == &c->threads[static_cast<unsigned>(engine_thread::control)]) {
    send_wake_signal(c, t);
  } else {
    ring_bell(t);
  }
}

// Waits until the thread has ended; see hold_background_thread().
void await_end(thread_control* c, thread_state& t) {
  // acquire: partner of the release in start(), and of the kernel's store.
  if (t.state.load(std::memory_order_acquire) == none) return;
  constexpr int patience = 5;
  for (int tries = 200;; --tries) {
    // Again each time: a thread that is being started does not listen yet.
    wake(c, t);
    if (await_state(t, patience, [](std::uint32_t state) { return state == none; })) {
      // The kernel clears the state before it removes the thread from the process.
      await_end_of_thread(t.thread.load(std::memory_order_relaxed));
      return;
    }
    if (tries == 0 || is_above_interrupted_section()) break;
  }
  // A thread with the old rights still exists: it ends at its next check, even after the release.
  t.rights_changed.store(true, std::memory_order_relaxed);
}

}  // namespace

bool background_thread_runs() {
  return at_load->control != nullptr &&
         state_of(engine_thread::decay).state.load(std::memory_order_relaxed) == running;
}

void sleep_in_background_thread(std::int64_t milliseconds) {
  thread_state& t = state_of(engine_thread::decay);
  futex_wait(&t.bell, 0, milliseconds);
  // acquire: partner of the release in ring_background_thread().
  t.bell.exchange(0, std::memory_order_acquire);
  if (at_load->control->holds.load(std::memory_order_relaxed) == 0 && has_other_rights(t))
    t.rights_changed.store(true, std::memory_order_relaxed);
}

void ring_background_thread() {
  if (at_load->control != nullptr) ring_bell(state_of(engine_thread::decay));
}

void wake_control_thread() {
  thread_control* const c = at_load->control;
  if (c == nullptr) return;
  thread_state& t = state_of(engine_thread::control);
  full_fence();  // partner: the one in begin_control_thread(). Either the signal reaches it, or it sees the change.
  if (t.state.load(std::memory_order_relaxed) != none && is_own_process(c)) wake(c, t);
}

bool background_thread_must_end() {
  if (has_woken_waiter) {
    has_woken_waiter = false;
    give_way();
  }
  const thread_control* const c = at_load->control;
  return c != nullptr && (c->holds.load(std::memory_order_relaxed) != 0 ||
                          state_of(engine_thread::decay).rights_changed.load(std::memory_order_relaxed) ||
                          must_not_be_heard());
}

void begin_control_thread() {
  state_of(engine_thread::control)
      .listener.store(static_cast<int>(system_call(SYS_gettid)), std::memory_order_relaxed);
  full_fence();  // partner: the one in hold_background_thread(). Either it sends the signal, or the thread sees the hold.
}

bool control_thread_must_end() {
  thread_state& t = state_of(engine_thread::control);
  if (at_load->control->holds.load(std::memory_order_relaxed) != 0) return true;
  if (has_other_rights(t)) t.rights_changed.store(true, std::memory_order_relaxed);
  return t.rights_changed.load(std::memory_order_relaxed);
}

void leave_thread(engine_thread which) {
  state_of(which).listener.store(0, std::memory_order_relaxed);
  state_of(which).state.store(leaving, std::memory_order_relaxed);
  full_fence();  // partner: the one in ensure_thread()
}

bool stay_in_thread(engine_thread which) {
  thread_state& t = state_of(which);
  std::uint32_t expected = leaving;
  // A hold that begins after this look ends the thread at its next one.
  return !is_held(at_load->control, t) && !t.rights_changed.load(std::memory_order_relaxed) &&
         t.state.compare_exchange_strong(expected, running, std::memory_order_relaxed);
}

hold_token hold_background_thread() {
  thread_control* const c = at_load->control;
  if (c == nullptr) return 0;
  hold_token token = c->token.load(std::memory_order_relaxed);
  if (token == 0) {
    hold_token fresh = last_token.fetch_add(1, std::memory_order_relaxed) + 1;
    if (c->token.compare_exchange_strong(token, fresh, std::memory_order_relaxed)) token = fresh;
  }
  c->holds.fetch_add(1, std::memory_order_relaxed);
  full_fence();  // partner: the one in start_claimed()
  for (thread_state& t : c->threads) await_end(c, t);
  return token;
}

void release_background_thread(hold_token token) {
  thread_control* const c = at_load->control;
  if (c == nullptr || c->token.load(std::memory_order_relaxed) != token) return;
  if (c->holds.fetch_sub(1, std::memory_order_relaxed) != 1) return;
  full_fence();  // partner: the one in is_held(). Either we see its request, or it sees that there is no hold.
  for (thread_state& t : c->threads) {
    if (t.start_after_hold.exchange(0, std::memory_order_relaxed) == 0 || !may_start(t)) continue;
    if (t.state.load(std::memory_order_relaxed) == none) start(c, t);
  }
}

bool thread_exists(long process, long thread) {
  constexpr long no_such_thread = -3;
  return system_call(SYS_tgkill, process, thread, 0) != no_such_thread;
}

void await_end_of_thread(long thread) {
  constexpr long exists = 0;
  constexpr int tries = 5000;
  const long process = system_call(SYS_getpid);
  for (int i = 0; i < tries && system_call(SYS_tgkill, process, thread, 0) == exists; ++i) {
    const timespec pause{0, 20000};
    if (i > 0) system_call(SYS_nanosleep, &pause, 0);
  }
}

void note_threads_allowed() {
  if (allow_thread_calls()) note_own_process();
}

void note_own_process() {
  thread_control* const c = at_load->control;
  if (c != nullptr && c->process.load(std::memory_order_relaxed) == 0) note_process(c);
}

void note_forked_child() {
  thread_control* const c = at_load->control;
  if (c == nullptr) return;
  const long self = system_call(SYS_getpid);
  const long noted = c->process.load(std::memory_order_relaxed);
  // This is a copy of the parent's page: an emulator has accepted MADV_WIPEONFORK without effect.
  if (noted != 0 && noted != self) new (c) thread_control;
  note_process(c);
}

bool in_vfork_child() {
  if (in_sandbox()) return false;
  const thread_control* const c = at_load->control;
  const long noted = c != nullptr ? c->process.load(std::memory_order_relaxed) : 0;
  return noted != 0 && !is_process(c, noted);
}

}  // namespace tarn::os
