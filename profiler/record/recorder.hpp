// SPDX-License-Identifier: MIT
// recorder: what the hooks tell the collector. Runs in the profiled program, in front of its malloc: it allocates
// nothing there, keeps errno, and may be called from before the first constructor until after the last exit handler,
// in signal handlers, in forked children and in threads with small stacks. Where there is no session, or the collector
// has gone, it does nothing.
//
// What a forked child must not go on using (rings, the process's slot) is in memory that the kernel wipes for it: it
// then finds zeroes and begins a recording of its own, however it was forked.
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

// Fills `real`; until it is done a small store of the recorder's own serves. True: it is done.
bool find_real_functions();

// In mode full a filter of one count that is never 0.
extern constinit std::atomic<const block_filter*> filter;

struct thread_local_part {
  struct thread_state* state;
  std::int64_t countdown;       // above told_below: bytes to the next sample
  std::uint64_t faults_before;  // of the thread, when the recorder's work that is under way began
  std::uint8_t busy;            // a busy_kind
  std::uint8_t in_new;          // inside the program's operator new or delete, which will call malloc or free
  std::uint8_t untimed;         // in mode full: calls of small blocks until the next one that is timed
  std::uint8_t timed_in;        // in mode sample: untold frees until the one that is timed; 0: none will be
};
extern constinit thread_local thread_local_part self __attribute__((tls_model("initial-exec")));

// An allocation is told where the thread's countdown is below it: always in mode full, never while nothing is recorded.
// In mode sample each recording of a process begins above the countdowns that an earlier one has left in threads.
extern constinit std::atomic<std::int64_t> told_below;

// Whether the call that is about to get `size` bytes is to be told: one subtraction and a branch that is nearly never
// taken where blocks are sampled. Asked before the call, so that it can be timed.
inline bool wants_allocation(std::size_t size) {
  self.countdown = static_cast<std::int64_t>(static_cast<std::uint64_t>(self.countdown) - size);
  // relaxed: nothing depends on it but whether the slow way is taken
  const std::int64_t limit = told_below.load(std::memory_order_relaxed);
  return __builtin_expect(self.countdown < limit || size >= large_block_bytes, 0) != 0;
}
inline bool wants_free(const void* block) {
  // acquire, pairs with the release in sampled_blocks: the counts of a new filter are there
  const block_filter* now = filter.load(std::memory_order_acquire);
  return now->counts()[filter_hash(block) & now->mask] != 0;
}
// Whether a free that is not told is timed: in mode sample, in place of the last one that was told. What the recorder did
// before that one took the caches from it; after some more calls they are as the program has them.
inline bool wants_free_time() { return __builtin_expect(self.timed_in != 0, 0) != 0 && --self.timed_in == 0; }

// Whether a call that is told is timed, too: every one that is sampled, in mode full one in 16 on average and all of
// large blocks.
bool wants_time(std::size_t size);
tick_source session_ticks();

// Times a call that does nothing in the same way: by code that is not in the caches, through a pointer whose target is
// not predicted. The free of null is one in every malloc, and its own code is in the caches.
void time_nothing(call_time& beside);

// Calls `forward`, timed if need be.
template <typename call>
[[gnu::always_inline]] inline auto run_timed(bool timed, call_time& time, call forward) {
  if (!timed) return forward();
  call_timer timer(session_ticks());
  auto* const result = forward();
  time = timer.stop();
  time_nothing(time);
  return result;
}

// The program gets `block`; null: the call failed. `alignment` is 0 where the program did not ask for one.
void allocated(word_kind kind, void* block, std::size_t size, std::size_t alignment,
               const call_origin& origin, const call_time& time);
// It is about to give `block` back: told before, as another thread may have it at once. True: the call is to be timed,
// and freed() tells how long it took; false: it is not, or wants_free_time() chooses a later one in its place.
bool freeing(word_kind kind, void* block);
void freed(const call_time& time);
// The two halves of realloc; the second with null when it failed. False: the old block was not recorded.
bool realloc_begins(void* block);
void realloc_ends(bool begun, void* block, std::size_t size, const call_origin& origin,
                  const call_time& time);

void mapped(void* start, std::size_t bytes, bool anonymous, const call_origin& origin);
void unmapped(void* start, std::size_t bytes);
void thread_named(const char* name);
// Around each close of a library: what is known of code and of paths is not used meanwhile, and is found anew afterwards.
void library_closing();
void library_closed();

// A call of malloc or free that operator new or delete of the program's library has made.
bool is_inner_call(std::uintptr_t return_address, bool consume);
void set_new_module(std::uintptr_t address_within);
// The program's operators, if they have not been found before.
void look_for_operators();
// A mapping that the program's malloc makes.
bool is_allocators(const call_origin& origin);

void start();  // when the library is loaded
enum class ending_by : std::uint8_t { exit, detach };
void process_ends(ending_by how);
// Whether the process's memory is its own. False: it is a child by vfork, in its parent's.
bool is_own_memory();

// ---- the store that serves before the program's malloc is known ----
void* early_allocate(std::size_t size, std::size_t alignment);
bool is_early(const void* block);
std::size_t early_size(const void* block);

}  // namespace tarn::profiler::recorder
