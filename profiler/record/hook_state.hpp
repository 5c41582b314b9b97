// SPDX-License-Identifier: MIT
// hook_state: what the hooks read in front of each call of the program: the program's own functions (next_functions.hpp), and
// whether the call is recorded. Defined in real_functions.cpp and recorder.cpp.
//
// Thread safety: `self` is the calling thread's; all else may be read by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/record/next_functions.hpp"
#include "profiler/record/own_calls.hpp"
#include "profiler/record/sampled_blocks.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler::recorder {

// Fills `real`; until then the early store serves allocations. True: `real` is filled.
bool find_real_functions();

// Counts per hash of the recorded blocks' addresses. In mode full: a filter with one count that is never 0, so that
// every free is recorded.
extern constinit std::atomic<const block_filter*> filter;

struct thread_local_part {
  struct thread_state* state;
  const struct process_page* lost_in;  // the process's page in the recording that had no ring for this thread
  std::int64_t countdown;              // minus recorded_below: to the next sample, in bytes (countdown_of)
  std::uint64_t faults_before;         // the thread's page faults when the recorder's present work began
  // In the section that the thread is in (recorder.cpp), whose address it holds until the section ends.
  const std::uintptr_t* section;
  std::uint8_t busy;  // a busy_kind
  // Inside the program's operator new or delete, whose inner call of malloc or free is not recorded.
  std::uint8_t in_new;
  std::uint8_t untimed;   // in mode full: calls for small blocks to skip before the next timed one
  std::uint8_t timed_in;  // in mode sample: unsampled frees until the timed one; 0: none will be timed
};
extern constinit thread_local thread_local_part self __attribute__((tls_model("initial-exec")));

// An allocation is recorded if the thread's countdown is below this value: always in mode full, never while nothing is
// recorded. In mode sample each recording of a process uses a higher value than the one before, above all
// countdowns that the earlier one has left in threads.
extern constinit std::atomic<std::int64_t> recorded_below;

// Whether the call that is about to get `size` bytes is to be recorded: one subtraction and a branch that is rarely
// taken in mode sample. Asked before the call, so that the call can be timed.
inline bool wants_allocation(std::size_t size) {
  self.countdown = static_cast<std::int64_t>(static_cast<std::uint64_t>(self.countdown) - countdown_of(size));
  // relaxed: it only decides whether the slow path is taken
  const std::int64_t limit = recorded_below.load(std::memory_order_relaxed);
  return __builtin_expect(self.countdown < limit || size >= large_block_bytes, 0) != 0;
}
inline bool wants_free(const void* block) {
  // acquire: partner of the release in sampled_blocks::grow: the counts of a new filter are filled
  return may_hold(*filter.load(std::memory_order_acquire), block);
}
// Whether nothing is to be done beside the free of `block`: nearly always in mode sample.
inline bool is_free_of_no_interest(const void* block) {
  return __builtin_expect(!wants_free(block) && self.timed_in == 0, 1) != 0;
}
// Whether a free that is not recorded is timed. In mode sample it is timed in place of a sampled free, some calls after
// it: the recorder's work on the sampled free has displaced the program's cache lines, and those calls bring them
// back.
inline bool wants_free_time() {
  return __builtin_expect(self.timed_in != 0, 0) != 0 && --self.timed_in == 0 && !has_fallen_silent();
}

}  // namespace tarn::profiler::recorder
