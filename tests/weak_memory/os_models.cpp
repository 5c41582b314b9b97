// SPDX-License-Identifier: MIT
// The mutex of src/os. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

constexpr int unlocked = 0;
constexpr int locked = 1;
constexpr int contended = 2;

// mutex::lock(), lock_slow() with one round of spinning, and unlock(). What the mutex guards is a plain variable.
// Covers: src/os/mutex.hpp: word_.compare_exchange_strong acquire, word_.compare_exchange_weak acquire,
// Covers: src/os/mutex.hpp: word_.exchange acquire, word_.exchange release
void lock(thread& t) {
  const order acquire = unless("acquire", order::acquire);
  for (int spin = 0; spin < 2; ++spin) {
    int expected = unlocked;
    if (t.compare_exchange(0, expected, locked, acquire, order::relaxed)) return;
  }
  while (t.exchange(0, without("contended") ? locked : contended, acquire) != unlocked) {
    t.futex_wait(0, without("contended") ? locked : contended);
  }
}

void unlock(thread& t) {
  if (t.exchange(0, unlocked, unless("release", order::release)) == contended && !without("wake"))
    t.futex_wake(0);
}

model mutex() {
  const auto user = [](thread& t) {
    lock(t);
    t.write(0, t.read(0) + 1);
    unlock(t);
  };
  return {1,
          1,
          {user, user, user},
          [](const machine& m) {
            return m.plain_value(0) != 3 ? "an addition under the lock was lost" : nullptr;
          },
          {}};
}
const registered mutex_protocol("os.mutex", {"acquire", "release", "wake", "contended"}, mutex);

}  // namespace
}  // namespace weak
