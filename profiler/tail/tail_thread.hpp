// SPDX-License-Identifier: MIT
// tail_thread: what a thread needs to time its calls, and to count them in the command's memory.
//
// Thread safety: `self` is the calling thread's; the rest may be used by any thread. A forked child finds *process_mark wiped,
// and its thread begins anew: the parent's ring is not mapped there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/record/call_timer.hpp"
#include "profiler/tail/kernel_watch.hpp"
#include "profiler/tail/tail_page.hpp"

namespace tarn::profiler::tail {

// Of a thread that does not count. Never *process_mark, which is 0 where nothing counts, also in a forked child at first.
inline constexpr std::uint32_t no_mark = ~std::uint32_t{0};

struct thread_part {
  std::uint32_t mark = no_mark;  // *process_mark when the thread began to count
  bool inside = false;           // a call is being timed
  bool busy = false;             // the thread begins, which may allocate
  bool has_ended = false;        // its data are gone
  std::uint8_t ends = 0;         // rounds of destructors that it has been through
  thread_slot* slot = nullptr;
  kernel_watch watch = {};
};
extern constinit thread_local thread_part self __attribute__((tls_model("initial-exec")));

extern constinit const std::atomic<std::uint32_t>* process_mark;
extern constinit tick_source ticks_from;

// Maps the command's memory, if the environment names it, and measures what timing costs. Requires: called once, before the
// program has threads.
void begin_process();

// False: the thread's calls are not counted.
bool begin_thread();
inline bool is_counting() {
  // relaxed: written by this thread, or before it began
  return __builtin_expect(self.mark == process_mark->load(std::memory_order_relaxed), 1) != 0 ||
         begin_thread();
}

void count(call_kind kind, std::uint8_t group, const recorder::call_time& time);

// Calls `forward`, which returns a value, and counts the call.
template <class call>
[[gnu::always_inline]] inline auto timed(call_kind kind, std::uint8_t group, call forward) {
  self.inside = true;
  self.watch.begin(group == group_count - 1);
  recorder::call_timer timer(ticks_from);
  const auto result = forward();
  const recorder::call_time time = timer.stop();
  count(kind, group, time);
  self.inside = false;
  return result;
}

}  // namespace tarn::profiler::tail
