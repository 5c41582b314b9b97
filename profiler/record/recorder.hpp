// SPDX-License-Identifier: MIT
// recorder: records what the hooks report, for the collector. Runs in the profiled program, in front of its malloc:
// it allocates nothing there, preserves errno, and may be called from before the first constructor until after the
// last exit handler, in signal handlers, in forked children and in threads with small stacks. It does nothing if
// there is no session, or if the collector has gone.
//
// What a forked child must not go on using (rings, the process's state) lies in memory that the kernel wipes at
// fork (MADV_WIPEONFORK): the child finds zeroes and begins a recording of its own, however it was forked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/record/call_path.hpp"
#include "profiler/record/call_timer.hpp"
#include "profiler/record/sampled_blocks.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler::recorder {

// The program's own functions. Null where there is none.
struct real_functions {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*reallocarray)(void*, std::size_t, std::size_t);
  void (*free)(void*);
  void (*free_sized)(void*, std::size_t);
  void (*free_aligned_sized)(void*, std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  std::size_t (*malloc_usable_size)(void*);
};
extern constinit real_functions real;

// Fills `real`; until then the early store below serves allocations. True: `real` is filled.
bool find_real_functions();

// Counts per hash of the recorded blocks' addresses. In mode full: a filter with one count that is never 0, so that
// every free is told.
extern constinit std::atomic<const block_filter*> filter;

struct thread_local_part {
  struct thread_state* state;
  std::int64_t countdown;       // minus told_below: bytes to the next sample
  std::uint64_t faults_before;  // the thread's page faults when the recorder's present work began
  std::uint8_t busy;            // a busy_kind
  // Inside the program's operator new or delete, whose inner call of malloc or free is not told.
  std::uint8_t in_new;
  std::uint8_t untimed;   // in mode full: calls for small blocks to skip before the next timed one
  std::uint8_t timed_in;  // in mode sample: unsampled frees until the timed one; 0: none will be timed
};
extern constinit thread_local thread_local_part self __attribute__((tls_model("initial-exec")));

// An allocation is told if the thread's countdown is below this value: always in mode full, never while nothing is
// recorded. In mode sample each recording of a process uses a higher value than the one before, above all
// countdowns that the earlier one has left in threads.
extern constinit std::atomic<std::int64_t> told_below;

// Whether the call that is about to get `size` bytes is to be told: one subtraction and a branch that is rarely
// taken in mode sample. Asked before the call, so that the call can be timed.
inline bool wants_allocation(std::size_t size) {
  self.countdown = static_cast<std::int64_t>(static_cast<std::uint64_t>(self.countdown) - size);
  // relaxed: it only decides whether the slow path is taken
  const std::int64_t limit = told_below.load(std::memory_order_relaxed);
  return __builtin_expect(self.countdown < limit || size >= large_block_bytes, 0) != 0;
}
inline bool wants_free(const void* block) {
  // acquire, pairs with the release in sampled_blocks::grow: the counts of a new filter are filled
  const block_filter* now = filter.load(std::memory_order_acquire);
  return now->counts()[filter_hash(block) & now->mask] != 0;
}
// Whether a free that is not told is timed. In mode sample it is timed in place of a sampled free, some calls after
// it: the recorder's work on the sampled free has displaced the program's cache lines, and those calls bring them
// back.
inline bool wants_free_time() { return __builtin_expect(self.timed_in != 0, 0) != 0 && --self.timed_in == 0; }

// Whether an allocation that is told is also timed: every sampled one; in mode full one in 16 on average, and all
// of large blocks.
bool wants_time(std::size_t size);
tick_source session_ticks();

// Times a call that does nothing, to measure the cost of timing under the same conditions: with cold code, through
// a pointer whose target is not predicted. It calls free(nullptr), whose own code was just used.
void time_nothing(call_time& beside);

// Calls `forward`, and measures its duration if `timed`.
template <typename call>
[[gnu::always_inline]] inline auto run_timed(bool timed, call_time& time, call forward) {
  if (!timed) return forward();
  call_timer timer(session_ticks());
  auto* const result = forward();
  time = timer.stop();
  time_nothing(time);
  return result;
}

// The program gets `block`; null: the call failed. `alignment` is 0 if the program asked for none.
void allocated(word_kind kind, void* block, std::size_t size, std::size_t alignment,
               const call_origin& origin, const call_time& time);
// The program is about to free `block`. Told before the free, as another thread may get the block immediately after
// it. True: the free is to be timed, and freed() takes its duration. False: it is not timed, or wants_free_time()
// chooses a later one in its place.
bool freeing(word_kind kind, void* block);
void freed(const call_time& time);
// Before and after realloc. realloc_begins returns whether the old block was recorded, which goes into `begun`;
// `block` of realloc_ends is null if realloc failed.
bool realloc_begins(void* block);
void realloc_ends(bool begun, void* block, std::size_t size, const call_origin& origin,
                  const call_time& time);

void mapped(void* start, std::size_t bytes, bool anonymous, const call_origin& origin);
void unmapped(void* start, std::size_t bytes);
void thread_named(const char* name);
// Called before and after each dlclose: meanwhile unwind rules and known call paths are not used, and afterwards
// they are determined anew.
void library_closing();
void library_closed();

// Whether a call of malloc or free was made by the program's operator new or delete, so that it is not told a
// second time.
bool is_inner_call(std::uintptr_t return_address, bool consume);
void set_new_module(std::uintptr_t address_within);
// Looks up the program's operators new and delete, unless they are known.
void look_for_operators();
// Whether the mapping is made by the program's malloc itself.
bool is_allocators(const call_origin& origin);

void start();  // begins to record, if the environment names a session
enum class ending_by : std::uint8_t { exit, detach };
void process_ends(ending_by how);
// False: the process is a vfork child, which runs in its parent's memory.
bool is_own_memory();

// ---- the store that serves before the program's malloc is known ----
void* early_allocate(std::size_t size, std::size_t alignment);
bool is_early(const void* block);
std::size_t early_size(const void* block);

}  // namespace tarn::profiler::recorder
