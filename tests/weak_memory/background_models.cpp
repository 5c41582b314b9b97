// SPDX-License-Identifier: MIT
// How the engine's own threads begin, sleep and end. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

constexpr int absent = 0;
constexpr int running = 1;

// thread_main() and start_thread_if_absent() of src/runtime/decay.cpp. The thread stores `absent` and then looks for
// memory; who has freed memory looks whether the thread is there; each has a full fence between. In the end either the
// memory is gone, or a thread is running that will see to it.
// Covers: src/base/fence.hpp: atomic_thread_fence seq_cst
// Covers: src/base/fence.hpp: fence_word.fetch_add seq_cst
model decay_ends() {
  enum : unsigned { phase, dirty };
  const auto background = [](thread& t) {
    t.store(phase, absent, order::relaxed);
    if (!without("thread's fence")) t.full_fence();
    if (t.load(dirty, order::relaxed) == 0) return;
    int expected = absent;
    t.compare_exchange(phase, expected, running, order::relaxed, order::relaxed);
  };
  const auto freeing = [](thread& t) {
    t.store(dirty, 1, order::relaxed);
    if (!without("freeing thread's fence")) t.full_fence();
    int expected = absent;
    if (t.load(phase, order::relaxed) == absent)
      t.compare_exchange(phase, expected, running, order::relaxed, order::relaxed);
  };
  return {2,
          0,
          {background, freeing, freeing},
          [](const machine& m) {
            return m.last(phase) == absent ? "memory is left, and no thread to give it back" : nullptr;
          },
          [](machine& m) { m.set_initial(phase, running); }};
}
const registered decay("background.decay_ends", {"thread's fence", "freeing thread's fence"}, decay_ends);

// run_errands_soon() and sleep_until() of src/runtime/decay.cpp: an errand (a plain variable) is put down, then the word
// is set and the thread is woken; the thread clears the word, and then looks what there is.
// Covers: src/runtime/decay.cpp: sleep_word.exchange acquire, sleep_word.exchange release
model errands() {
  enum : unsigned { word, lock, list = 0 };
  const auto background = [](thread& t) {
    for (;;) {
      t.futex_wait(word, 0);
      if (t.exchange(word, 0, unless("acquire", order::acquire)) != 0) {
        t.check(t.read(list) == 1, "the errand is not there");
        return;
      }
    }
  };
  const auto program = [](thread& t) {
    t.write(list, 1);
    if (t.exchange(word, 1, unless("release", order::release)) == 0 && !without("wake")) t.futex_wake(word);
  };
  return {2, 1, {background, program}, {}, {}};
}
const registered errand("background.errands", {"acquire", "release", "wake"}, errands);

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
