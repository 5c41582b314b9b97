// SPDX-License-Identifier: MIT
// futex: sleeping until a word changes. Thread safety: any thread.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>
#include <ctime>

#include "os/syscall.hpp"

namespace tarn::os {

using futex_word = std::atomic<std::uint32_t>;
static_assert(sizeof(futex_word) == 4);

// Sleeps while *word == expected. Returns true when woken, when *word has changed, or spuriously; false when the time
// is over. A negative time means no limit.
inline bool futex_wait(futex_word* word, std::uint32_t expected, std::int64_t milliseconds = -1) {
  timespec limit{};
  limit.tv_sec = milliseconds / 1000;
  limit.tv_nsec = (milliseconds % 1000) * 1000000;
  constexpr long timed_out = -110;
  return system_call(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, expected,
                     milliseconds < 0 ? nullptr : &limit) != timed_out;
}

inline void futex_wake(futex_word* word, int sleepers) {
  system_call(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, sleepers);
}

inline void sleep_ms(std::int64_t milliseconds) {
  futex_word nobody_wakes_it{0};
  futex_wait(&nobody_wakes_it, 0, milliseconds);
}

// Long enough for a thread that was woken to run.
inline void give_way() {
  futex_word nobody_wakes_it{0};
  const timespec limit{0, 50'000};
  system_call(SYS_futex, &nobody_wakes_it, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &limit);
}

}  // namespace tarn::os
