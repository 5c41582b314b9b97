// SPDX-License-Identifier: MIT
// recorder: records what the hooks report, for the collector. Runs in the profiled program, in front of its malloc:
// it allocates nothing there, preserves errno, and may be called from before the first constructor until after the
// last exit handler, in signal handlers, in forked children and in threads with small stacks. It does nothing if
// there is no session, or if the collector has gone.
//
// What a forked child must not go on using (rings, the process's state) lies in memory that the kernel wipes at
// fork (MADV_WIPEONFORK): the child finds zeroes and begins a recording of its own, however it was forked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/record/call_path.hpp"
#include "profiler/record/call_timer.hpp"
#include "profiler/record/early_store.hpp"
#include "profiler/record/hook_state.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler::recorder {

// Whether an allocation that is recorded is also timed: every sampled one; in mode full one in 16 on average, and all
// of large blocks.
bool wants_time(std::size_t size);
tick_source session_ticks();

// Times a call that does nothing, to measure the cost of timing under the same conditions: with cold code, through
// a pointer whose target is not predicted. It calls free(nullptr), whose own code was just used.
void time_nothing(call_time& beside);

// Calls `forward`, and measures its duration if `timed`.
template <class call>
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
// The program is about to free `block`. Recorded before the free, as another thread may get the block immediately
// after it. True: the free is to be timed, and freed() takes its duration. False: it is not timed, or wants_free_time()
// chooses a later one in its place.
bool freeing(word_kind kind, void* block);
void freed(const call_time& time);
// Frees `block` by `forward`, and records that if it is to be recorded.
template <class call>
[[gnu::always_inline]] inline void record_free(word_kind kind, call forward, void* block) {
  if (wants_free(block) ? !freeing(kind, block) : !wants_free_time()) return forward();
  call_timer timer(session_ticks());
  forward();
  call_time time = timer.stop();
  time_nothing(time);
  freed(time);
}
// Before and after realloc. realloc_begins returns whether the old block was recorded, which goes into `begun`;
// `block` of realloc_ends is null if realloc failed.
bool realloc_begins(void* block);
void realloc_ends(bool begun, void* block, std::size_t size, const call_origin& origin,
                  const call_time& time);

void mapped(void* start, std::size_t bytes, const call_origin& origin);
// The program is about to unmap this. Told before the call, as another thread may map memory there right after it. True: if
// the call fails, unmap_refused() is to be called.
bool unmapping(void* start, std::size_t bytes);
void unmap_refused(void* start);
void thread_named(const char* name);
// The calling thread can no longer read the clock: ends the recording of this process.
void fall_silent(silence because);

// Called before and after each dlclose. Between both calls unwind rules and known call paths are not used; afterwards
// they are determined again.
void library_closing();
void library_closed();

// Whether a call of malloc or free was made by the program's operator new or delete, so that it is not recorded
// a second time.
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

}  // namespace tarn::profiler::recorder
