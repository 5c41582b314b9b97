// SPDX-License-Identifier: MIT
// How the engine's own threads begin, sleep and end. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

// What the kernel does when the background thread is off its stack.
void leave_stack(thread& t, unsigned state) {
  t.store(state, 0, order::release);
  t.futex_wake(state, true);
}

// The states of the background thread in src/os/thread.cpp.
enum : int { none, running, leaving, wanted };

// await_state() for `none`; its limits of time are left out.
void await_none(thread& t, unsigned state, order acquire) {
  for (int seen = t.load(state, acquire); seen != none; seen = t.load(state, acquire))
    t.futex_wait(state, seen);
}

// leave_background_thread() and ensure_background_thread() of src/os/thread.cpp, as background_thread_body() and wake() of
// src/runtime/decay.cpp use them. The thread stores `leaving` and then looks for memory; who has freed memory looks at the
// state; each has a full fence between. Who wants the next thread waits only until the state is another one: a third may have
// started it by then. In the end a thread is running that will see to the memory. The stack is a plain
// variable: the next thread starts on it when the last one is off it.
// Covers: src/base/fence.hpp: atomic_thread_fence seq_cst, fence_word.fetch_add seq_cst
// Covers: src/os/thread.cpp: state.compare_exchange_strong acquire, state.load acquire
model thread_leaves() {
  enum : unsigned { state, dirty, stack = 0 };
  const auto background = [](thread& t) {
    t.write(stack, 1);
    t.store(state, leaving, order::relaxed);
    if (!without("thread's fence")) t.full_fence();
    int expected = leaving;
    if (t.load(dirty, order::relaxed) != 0 &&
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
                        {"thread's fence", "freeing thread's fence", "acquire", "end of wait"},
                        thread_leaves);

// hold_background_thread() against start() and start_claimed() of src/os/thread.cpp: while a hold is there, the program
// changes its rights (a plain variable), which the thread has from the one that starts it.
// Covers: src/os/thread.cpp: state.store release
model held_off() {
  enum : unsigned { state, holds, rights = 0 };
  const auto starter = [](thread& t) {
    int expected = none;
    if (!t.compare_exchange(state, expected, running, order::acquire, order::relaxed)) return;
    if (!without("starter's fence")) t.full_fence();
    if (t.load(holds, order::relaxed) == 0) t.read(rights);  // the thread's life
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
                               {"starter's fence", "holder's fence", "acquire", "release"}, held_off);

// is_held() against release_background_thread() of src/os/thread.cpp: memory was freed while a hold kept the thread away.
// Either the end of the hold sees the wish for a thread, or who wishes sees that there is no hold any more.
model wish_for_thread() {
  enum : unsigned { state, holds, wished };
  const auto start = [](thread& t) {
    int expected = none;
    t.compare_exchange(state, expected, running, order::acquire, order::relaxed);
  };
  const auto freeing = [=](thread& t) {
    bool held = t.load(holds, order::relaxed) != 0;
    if (held) {
      t.store(wished, 1, order::relaxed);
      if (!without("wisher's fence")) t.full_fence();
      held = t.load(holds, order::relaxed) != 0;
    }
    if (!held) start(t);
  };
  const auto holder = [=](thread& t) {
    if (t.fetch_add(holds, -1, order::relaxed) != 1) return;
    if (!without("holder's fence")) t.full_fence();
    if (t.exchange(wished, 0, order::relaxed) != 0) start(t);
  };
  return {
      3,
      0,
      {freeing, holder, holder},
      [](const machine& m) { return m.last(state) != running ? "memory is left, and no thread" : nullptr; },
      [](machine& m) { m.set_initial(holds, 2); }};
}
const registered wish("background.wish_for_thread", {"wisher's fence", "holder's fence"}, wish_for_thread);

// hold_background_thread() against a thread that sleeps: the bell wakes it, and it sees the hold.
// Covers: src/os/thread.cpp: bell.exchange acquire, bell.exchange release
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
    if (t.exchange(bell, 1, unless("release", order::release)) == 0 && !without("wake")) t.futex_wake(bell);
    await_none(t, state, order::acquire);
  };
  return {3, 0, {background, holder}, {}, [](machine& m) { m.set_initial(state, running); }};
}
const registered bell_rings("background.bell", {"acquire", "wake"}, bell_for_hold);

// run_errands_soon() and sleep_until() of src/runtime/decay.cpp: an errand (a plain variable) is put down, then errands_wait
// is set and the bell is rung. The thread may wake early.
// Covers: src/runtime/decay.cpp: errands_wait.exchange acquire, errands_wait.exchange release
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

// thread_main() and stop() of src/recycler/caretaker.cpp: the process goes on to its end when the thread has left the
// program's code, whose work is a plain variable.
// Covers: src/recycler/caretaker.cpp: alive.store release, alive.load acquire
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
