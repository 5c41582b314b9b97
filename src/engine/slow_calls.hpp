// SPDX-License-Identifier: MIT
// slow_calls: how long those calls of malloc and free take that the calling thread's cache does not serve at once, while
// the option slow_calls is on. The time is the caller's: waiting for locks counts, and so does time in which the processor ran
// something else. Calls are counted by the thread's class, which is its name without the digits and separators at its end.
// The first 15 such names have classes; the class "other" has later names, names of digits only, and threads that are new
// in a sandbox (os/sandbox.hpp), which might forbid the question.
//
// Off, such a call costs one load and one branch more; on, two readings of the clock and a count that threads of a class
// share. The kernel is asked for the name at a thread's timed calls 1, 2, 4, …, 1,024, then at each 1,024th.
// Thread safety: any thread and any signal handler; no locks. Invariant: each timed call is in one count, that of its
// thread's class and of the shortest duration which it did not exceed.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.hpp"
#include "engine/metrics.hpp"
#include "os/clock.hpp"

namespace tarn::slow_calls {

enum class kind : std::uint8_t { allocation, large_allocation, free, large_free };
inline constexpr unsigned kinds = 4;

#pragma GCC visibility push(hidden)
inline constinit std::atomic<bool> is_on{false};

// Ends now a call that began at `start`, in nanoseconds of the clock.
void add(kind what, std::int64_t start);

// For each class of threads and each duration, how many calls of each kind took no longer; no_value if the class has none
// of the kind.
extern const metric_group metrics;
#pragma GCC visibility pop

template <class Call>
TARN_COLD auto timed(kind what, Call call) {
  struct timer {
    const kind what;
    const std::int64_t start = os::now_ns();
    ~timer() { add(what, start); }
  } const time{what};
  return call();
}

// What `call` returns. It should do no more than call a function that is not inlined: then all of this is a jump.
template <class Call>
TARN_ALWAYS_INLINE auto counted(kind what, Call call) {
  if (TARN_UNLIKELY(is_on.load(std::memory_order_relaxed))) return timed(what, call);
  return call();
}

}  // namespace tarn::slow_calls
