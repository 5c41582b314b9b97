// SPDX-License-Identifier: MIT
// How the engine's own threads start, sleep and end. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

// What the kernel does when the background thread no longer uses its stack.
void leave_stack(thread& t, unsigned state) {
  t.store(state, 0, order::release);
  t.futex_wake(state, true);
}

// The states of the background thread in src/os/own_threads/thread.cpp.
enum : int { none, running, leaving, wanted };

// await_state() for `none`, without its time limits.
void await_none(thread& t, unsigned state, order acquire) {
  for (int seen = t.load(state, acquire); seen != none; seen = t.load(state, acquire))
    t.futex_wait(state, seen);
}

// leave_background_thread() and ensure_background_thread() of src/os/own_threads/thread.cpp, as called by background_thread_body()
// and wake() of src/background/decay.cpp. The background thread stores `leaving` and then looks for free memory (`dirty`);
// a thread that frees memory stores `dirty` and then reads the state; both have a full fence in between. A thread that
// finds `leaving` asks for the next background thread (`wanted`) and waits only until the state changes, because a
// third thread may have started the next one by then. At the end a background thread must be running. The stack is a
// plain variable: a new thread may write to it only after the old one has left it.
// Covers: src/base/fence.hpp: atomic_thread_fence seq_cst, fence_word.fetch_add seq_cst
// Covers: src/os/own_threads/thread.cpp: state.compare_exchange_strong acquire, state.load acquire
model thread_leaves() {
  enum : unsigned { state, dirty, stack = 0 };
  const auto background = [](thread& t) {
    t.write(stack, 1);
    t.store(state, leaving, order::relaxed);
    if (!without("thread's fence")) t.full_fence();
    int expected = leaving;
    if (!without("second look") && t.load(dirty, order::relaxed) != 0 &&
        t.compare_exchange(state, expected, running, order::relaxed, order::relaxed)) {
      return;
    }
    leave_stack(t, state);
  };
  const auto freeing = [](thread& t) {
    t.store(dirty, 1, order::relaxed);
    if (!without("freeing thread's fence")) t.full_fence();
    int seen = t.load(state, order::relaxed);
    if (seen == running || seen == wanted) return;
    if (seen == leaving) {
      if (without("wait for leaving")) return;
      if (t.compare_exchange(state, seen, wanted, order::relaxed, order::relaxed)) {
        if (without("end of wait")) {
          await_none(t, state, order::acquire);
        } else {
          while (t.load(state, order::acquire) == wanted) t.futex_wait(state, wanted);
        }
      } else if (seen != none) {
        return;
      }
    }
    int expected = none;
    if (t.compare_exchange(state, expected, running, unless("acquire", order::acquire), order::relaxed))
      t.write(stack, 2);
  };
  return {
      2,
      1,
      {background, freeing, freeing},
      [](const machine& m) { return m.last(state) != running ? "memory is left, and no thread" : nullptr; },
      [](machine& m) { m.set_initial(state, running); }};
}
const registered leaves("background.thread_leaves",
                        {"thread's fence", "second look", "freeing thread's fence", "wait for leaving",
                         "acquire", "end of wait"},
                        thread_leaves);

// hold_background_thread() against start() and start_claimed() of src/os/own_threads/thread.cpp: while it holds the background
// thread off, the program changes its rights (a plain variable), which a new thread inherits from the thread that
// starts it.
// Covers: src/os/own_threads/thread.cpp: state.store release
model held_off() {
  enum : unsigned { state, holds, rights = 0 };
  const auto starter = [](thread& t) {
    int expected = none;
    if (!t.compare_exchange(state, expected, running, order::acquire, order::relaxed)) return;
    if (!without("starter's fence")) t.full_fence();
    if (t.load(holds, order::relaxed) == 0 || without("look at holds"))
      t.read(rights);  // what the new thread inherits
    t.store(state, none, unless("release", order::release));
    t.futex_wake(state, true);
  };
  const auto holder = [](thread& t) {
    t.fetch_add(holds, 1, order::relaxed);
    if (!without("holder's fence")) t.full_fence();
    await_none(t, state, unless("acquire", order::acquire));
    t.write(rights, 1);
  };
  return {2, 1, {starter, holder}, {}, {}};
}
const registered held_protocol("background.held_off",
                               {"starter's fence", "look at holds", "holder's fence", "acquire", "release"},
                               held_off);

// is_held() and start() against release_background_thread() of src/os/own_threads/thread.cpp: memory is freed during a hold. Either
// the thread that ends the hold sees `wished`, or the thread that sets `wished` sees that the hold has ended; one of them
// starts the background thread. A start that has given way to a hold tries again if the hold has ended meanwhile.
namespace hold {
enum : unsigned { state, holds, wished, places };

bool is_held(thread& t) {
  if (t.load(holds, order::relaxed) == 0) return false;
  if (!without("wish")) t.store(wished, 1, order::relaxed);
  if (!without("wisher's fence")) t.full_fence();
  return t.load(holds, order::relaxed) != 0;
}

void start(thread& t) {
  for (bool again = true; again;) {
    int expected = none;
    if (!t.compare_exchange(state, expected, running, order::acquire, order::relaxed)) return;
    t.full_fence();
    if (!is_held(t)) return;
    t.store(state, none, order::release);
    t.futex_wake(state, true);
    t.full_fence();
    again = t.load(holds, order::relaxed) == 0 && !without("second try");
  }
}

void release(thread& t) {
  if (t.fetch_add(holds, -1, order::relaxed) != 1) return;
  if (!without("holder's fence")) t.full_fence();
  if (t.exchange(wished, 0, order::relaxed) != 0 && !without("start at release")) start(t);
}

const char* thread_runs(const machine& m) {
  return m.last(state) != running ? "memory is left, and no thread" : nullptr;
}

void freeing(thread& t) {
  if (!is_held(t)) start(t);
}

model wish_for_thread() {
  return {places, 0, {freeing, release, release}, thread_runs, [](machine& m) { m.set_initial(holds, 2); }};
}
const registered wish("background.wish_for_thread",
                      {"wish", "wisher's fence", "holder's fence", "start at release"}, wish_for_thread);

// The hold began after the freeing thread had looked, so the start may give way, while the hold ends.
model start_gives_way() {
  return {places, 0, {start, release}, thread_runs, [](machine& m) { m.set_initial(holds, 1); }};
}
const registered gives_way("background.start_gives_way", {"second try"}, start_gives_way);

// A background thread that ends because of a hold, with memory left, leaves word for the end of the hold.
model leaves_for_hold() {
  const auto background = [](thread& t) {
    for (bool stays = true; stays;) {
      t.store(state, leaving, order::relaxed);
      t.full_fence();
      int expected = leaving;
      stays = !is_held(t) && t.compare_exchange(state, expected, running, order::relaxed, order::relaxed);
      if (stays) t.await(holds, 1, order::relaxed);
    }
    leave_stack(t, state);
  };
  const auto holder = [](thread& t) {
    t.fetch_add(holds, 1, order::relaxed);
    t.full_fence();
    await_none(t, state, order::acquire);
    release(t);
  };
  return {places, 0, {background, holder}, thread_runs, [](machine& m) { m.set_initial(state, running); }};
}
const registered leaves_word("background.leaves_for_hold", {"wish"}, leaves_for_hold);
}  // namespace hold

// hold_background_thread() against a sleeping background thread: the bell wakes the thread, which then sees the hold.
// Covers: src/os/own_threads/thread.cpp: bell.exchange acquire, bell.exchange release
model bell_for_hold() {
  enum : unsigned { state, holds, bell };
  const auto background = [](thread& t) {
    while (t.load(holds, order::relaxed) == 0) {
      t.futex_wait(bell, 0);
      t.exchange(bell, 0, unless("acquire", order::acquire));
    }
    leave_stack(t, state);
  };
  const auto holder = [](thread& t) {
    t.fetch_add(holds, 1, order::relaxed);
    t.full_fence();
    if (t.load(state, order::acquire) == none) return;
    // This model also holds with relaxed here: it does not show what the release is for.
    if (t.exchange(bell, 1, order::release) == 0 && !without("wake")) t.futex_wake(bell);
    await_none(t, state, order::acquire);
  };
  return {3, 0, {background, holder}, {}, [](machine& m) { m.set_initial(state, running); }};
}
const registered bell_rings("background.bell", {"acquire", "wake"}, bell_for_hold);

// run_errands_soon() and sleep_until() of src/background/decay.cpp: the program writes an errand (a plain variable), sets
// errands_wait and rings the bell. The background thread may also wake by itself before that.
// Covers: src/background/decay.cpp: errands_wait.exchange acquire, errands_wait.exchange release
model errands() {
  enum : unsigned { waits, bell, list = 0 };
  const auto background = [](thread& t) {
    for (bool early = true;; early = false) {
      if (!early) t.futex_wait(bell, 0);
      t.exchange(bell, 0, order::acquire);
      if (t.exchange(waits, 0, unless("acquire", order::acquire)) != 0) {
        t.check(t.read(list) == 1, "the errand is not there");
        return;
      }
    }
  };
  const auto program = [](thread& t) {
    t.write(list, 1);
    if (t.exchange(waits, 1, unless("release", order::release)) == 0 &&
        t.exchange(bell, 1, order::release) == 0)
      t.futex_wake(bell);
  };
  return {2, 1, {background, program}, {}, {}};
}
const registered errand("background.errands", {"acquire", "release"}, errands);

// thread_main() and stop() of src/background/caretaker.cpp: stop() returns only after the thread has left the program's
// destructors, whose effect is a plain variable.
// Covers: src/background/caretaker.cpp: alive.store release, alive.load acquire
model caretaker_ends() {
  enum : unsigned { alive, lock, now, work = 0 };
  const auto caretaker = [](thread& t) {
    t.write(work, 1);
    t.lock(lock);
    t.store(alive, 0, unless("release", order::release));
    t.unlock(lock);
    t.futex_wake(alive, true);
  };
  const auto stop = [](thread& t) {
    while (t.load(alive, unless("acquire", order::acquire)) != 0) t.futex_wait(alive, 1);
    t.write(work, 2);
  };
  return {3, 1, {caretaker, stop}, {}, [](machine& m) { m.set_initial(alive, 1); }};
}
const registered caretaker("background.caretaker_ends", {"release", "acquire"}, caretaker_ends);

}  // namespace
}  // namespace weak
