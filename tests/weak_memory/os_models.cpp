// SPDX-License-Identifier: MIT
// The mutex and the pins of src/os. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

// plain_mutex: lock(), lock_slow() with one round of spinning, sleep(), unlock() and release(). The word is the
// holder's number, which is even, plus the flag `contended`. The data that the mutex guards is a plain variable.
// Covers: src/os/mutex.hpp: word_.compare_exchange_strong acquire, word_.compare_exchange_strong release,
// Covers: src/os/mutex.hpp: word_.exchange release
namespace mutex {
constexpr int contended = 1;

bool try_lock(thread& t, int wanted) {
  int expected = 0;
  return t.compare_exchange(0, expected, wanted, unless("acquire", order::acquire), order::relaxed);
}

void sleep(thread& t) {
  int word = t.load(0, order::relaxed);
  if (word == 0) return;
  if (!without("sleeper's flag") && (word & contended) == 0 &&
      !t.compare_exchange(0, word, word | contended, order::relaxed, order::relaxed)) {
    return;
  }
  t.futex_wait(0, without("sleeper's flag") ? word : word | contended);
}

void lock(thread& t, int self) {
  if (try_lock(t, self)) return;
  while (!try_lock(t, without("next holder's flag") ? self : self | contended)) sleep(t);
}

void unlock(thread& t, int self) {
  const order release = unless("release", order::release);
  int expected = self;
  if (t.compare_exchange(0, expected, 0, release, order::relaxed)) return;
  if ((t.exchange(0, 0, release) & contended) != 0 && !without("wake")) t.futex_wake(0);
}

model three_users() {
  const auto user = [](int self) {
    return [=](thread& t) {
      lock(t, self);
      t.write(0, t.read(0) + 1);
      unlock(t, self);
    };
  };
  return {1,
          1,
          {user(2), user(4), user(6)},
          [](const machine& m) {
            return m.plain_value(0) != 3 ? "an addition under the lock was lost" : nullptr;
          },
          {}};
}
const registered protocol("os.mutex", {"acquire", "release", "wake", "sleeper's flag", "next holder's flag"},
                          three_users);
}  // namespace mutex

// pin_count, as begin_ending() of src/engine/front_registry.hpp uses it: the thread that ends an instance, such as a
// pool, sleeps until the last pin is gone; after that no other thread uses the pool (a plain variable). All changes are
// made under the registry's lock.
model pins() {
  enum : unsigned { word, lock, pool = 0 };
  constexpr int ending = 8;
  const auto user = [](thread& t) {
    t.lock(lock);
    const int value = t.load(word, order::relaxed);
    const bool pinned = (value & ending) == 0;
    if (pinned) t.store(word, value + 1, order::relaxed);
    t.unlock(lock);
    if (!pinned) return;
    t.read(pool);
    t.lock(lock);
    const int left = t.load(word, order::relaxed) - 1;
    t.store(word, left, order::relaxed);
    t.unlock(lock);
    if (left == ending && !without("wake")) t.futex_wake(word, true);
  };
  const auto ender = [](thread& t) {
    for (;;) {
      t.lock(lock);
      const int value = t.load(word, order::relaxed) | ending;
      t.store(word, value, order::relaxed);
      t.unlock(lock);
      if (value == ending || without("look at pins")) break;
      const int seen = t.load(word, order::relaxed);
      if (seen != ending) t.futex_wait(word, seen);
    }
    t.write(pool, 1);
  };
  return {2, 1, {user, user, ender}, {}, {}};
}
const registered pin_count("os.pin_count", {"wake", "look at pins"}, pins);

}  // namespace
}  // namespace weak
