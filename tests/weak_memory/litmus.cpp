// SPDX-License-Identifier: MIT
// Litmus tests of the machine itself. In each complete test the C++ memory model forbids an outcome, which must not
// happen; without a part of the test the outcome is allowed, and must be found. Load buffering, which the machine does
// not have, is not tested. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

enum : unsigned { x, y, go };

// Each thread leaves what it saw in a plain variable of its own.
void keep(thread& t, unsigned variable, int value) { t.write(variable, value); }

model store_buffering() {
  const auto one = [](unsigned mine, unsigned other) {
    return [=](thread& t) {
      t.store(mine, 1, order::relaxed);
      if (!without("fences")) t.full_fence();
      keep(t, mine, t.load(other, order::relaxed));
    };
  };
  return {2,
          2,
          {one(x, y), one(y, x)},
          [](const machine& m) {
            return m.plain_value(0) == 0 && m.plain_value(1) == 0 ? "both loads came before both stores"
                                                                  : nullptr;
          },
          {}};
}
const registered sb("litmus.store_buffering", {"fences"}, store_buffering);

// Release and acquire do not forbid this outcome, nor does a full fence in one thread only.
model store_buffering_half() {
  const auto one = [](unsigned mine, unsigned other, bool fenced) {
    return [=](thread& t) {
      t.store(mine, 1, order::release);
      if (fenced) t.full_fence();
      keep(t, mine, t.load(other, order::acquire));
    };
  };
  return {2,
          2,
          {one(x, y, true), one(y, x, !without("the second fence"))},
          [](const machine& m) {
            return m.plain_value(0) == 0 && m.plain_value(1) == 0 ? "both loads came before both stores"
                                                                  : nullptr;
          },
          {}};
}
const registered sb_half("litmus.one_fence_is_not_enough", {"the second fence"}, store_buffering_half);

// membarrier() in one thread replaces the fence of the other.
model asymmetric_store_buffering() {
  const auto light = [](thread& t) {
    t.store(x, 1, order::relaxed);
    keep(t, 0, t.load(y, order::relaxed));
  };
  const auto heavy = [](thread& t) {
    t.store(y, 1, order::relaxed);
    if (without("membarrier")) {
      t.full_fence();
    } else {
      t.process_fence(2);
    }
    keep(t, 1, t.load(x, order::relaxed));
  };
  return {2,
          2,
          {light, heavy},
          [](const machine& m) {
            return m.plain_value(0) == 0 && m.plain_value(1) == 0 ? "both loads came before both stores"
                                                                  : nullptr;
          },
          {}};
}
const registered asymmetric("litmus.membarrier", {"membarrier"}, asymmetric_store_buffering);

model message_passing() {
  const auto writer = [](thread& t) {
    t.write(0, 1);
    t.store(x, 1, unless("release", order::release));
  };
  const auto reader = [](thread& t) {
    if (t.load(x, unless("acquire", order::acquire)) == 1) t.check(t.read(0) == 1, "stale");
  };
  return {1, 1, {writer, reader}, {}, {}};
}
const registered mp("litmus.message_passing", {"release", "acquire"}, message_passing);

model message_passing_by_fences() {
  const auto writer = [](thread& t) {
    t.store(y, 1, order::relaxed);
    if (!without("release fence")) t.fence(order::release);
    t.store(x, 1, order::relaxed);
  };
  const auto reader = [](thread& t) {
    const int seen = t.load(x, order::relaxed);
    if (!without("acquire fence")) t.fence(order::acquire);
    t.check(seen == 0 || t.load(y, order::relaxed) == 1, "stale");
  };
  return {2, 0, {writer, reader}, {}, {}};
}
const registered mp_fences("litmus.fences", {"release fence", "acquire fence"}, message_passing_by_fences);

// A read-modify-write continues the release sequence of the store before it; a relaxed store by another thread ends it.
model release_sequence() {
  const auto first = [](thread& t) {
    t.write(0, 1);
    t.store(x, 1, order::release);
  };
  const auto second = [](thread& t) {
    if (without("modification")) {
      if (t.load(x, order::relaxed) == 1) t.store(x, 2, order::relaxed);
    } else {
      int expected = 1;
      t.compare_exchange(x, expected, 2, order::relaxed, order::relaxed);
    }
  };
  const auto third = [](thread& t) {
    if (t.load(x, order::acquire) == 2) t.read(0);
  };
  return {1, 1, {first, second, third}, {}, {}};
}
const registered sequence("litmus.release_sequence", {"modification"}, release_sequence);

model coherence() {
  const auto writer = [](thread& t) {
    t.store(x, 1, order::relaxed);
    t.store(without("one location") ? y : x, 2, order::relaxed);
  };
  const auto reader = [](thread& t) {
    const int first = t.load(without("one location") ? y : x, order::relaxed);
    const int second = t.load(x, order::relaxed);
    t.check(first != 2 || second != 0, "a later load saw an earlier value");
  };
  return {2, 0, {writer, reader}, {}, {}};
}
const registered corr("litmus.coherence", {"one location"}, coherence);

// Two threads write both locations in opposite orders. Without fences, the first write of each thread may be the last
// in modification order.
model two_writes() {
  const auto one = [](unsigned first, unsigned second) {
    return [=](thread& t) {
      t.store(first, 1, order::relaxed);
      if (!without("fences")) t.full_fence();
      t.store(second, 2, order::relaxed);
    };
  };
  return {2,
          0,
          {one(x, y), one(y, x)},
          [](const machine& m) {
            return m.last(x) == 1 && m.last(y) == 1 ? "the first write of each thread won" : nullptr;
          },
          {}};
}
const registered w22("litmus.two_writes", {"fences"}, two_writes);

model independent_reads() {
  const auto writer = [](unsigned place) { return [=](thread& t) { t.store(place, 1, order::release); }; };
  const auto reader = [](unsigned first, unsigned second, unsigned variable) {
    return [=](thread& t) {
      const int a = t.load(first, order::acquire);
      if (!without("fences")) t.full_fence();
      const int b = t.load(second, order::acquire);
      keep(t, variable, a == 1 && b == 0 ? 1 : 0);
    };
  };
  return {2,
          2,
          {writer(x), writer(y), reader(x, y, 0), reader(y, x, 1)},
          [](const machine& m) {
            return m.plain_value(0) == 1 && m.plain_value(1) == 1 ? "two threads saw two orders" : nullptr;
          },
          {}};
}
const registered iriw("litmus.independent_reads", {"fences"}, independent_reads);

model atomic_addition() {
  const auto one = [](thread& t) {
    if (without("modification")) {
      t.store(x, t.load(x, order::relaxed) + 1, order::relaxed);
    } else {
      t.fetch_add(x, 1, order::relaxed);
    }
  };
  return {1,
          0,
          {one, one, one},
          [](const machine& m) { return m.last(x) != 3 ? "an addition was lost" : nullptr; },
          {}};
}
const registered addition("litmus.addition", {"modification"}, atomic_addition);

// A thread that sleeps on a futex is woken: no wake is lost.
model sleeping() {
  const auto sleeper = [](thread& t) {
    while (t.load(go, order::acquire) == 0) t.futex_wait(go, 0);
    t.read(0);
  };
  const auto waker = [](thread& t) {
    t.write(0, 1);
    t.store(go, 1, order::release);
    if (!without("wake")) t.futex_wake(go);
  };
  return {3, 1, {sleeper, waker}, {}, {}};
}
const registered sleep("litmus.futex", {"wake"}, sleeping);

}  // namespace
}  // namespace weak
