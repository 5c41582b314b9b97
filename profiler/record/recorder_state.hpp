// SPDX-License-Identifier: MIT
// recorder_state: the recorder's state of a process and of each thread, and how events get into a ring.
//
// The ring of a thread (positions only grow; index = position & mask):
//
//   tail ........ published head .... head ....... room_end ....... tail + words of the ring
//   to be read    being written       free, known  free, not checked against tail yet
//
// Invariant of a thread: head - tail <= words of the ring; all words below the ring's published head are complete.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/mutex.hpp"
#include "profiler/record/call_path.hpp"
#include "profiler/record/hook_state.hpp"
#include "profiler/record/python_frames.hpp"
#include "profiler/record/sampled_blocks.hpp"
#include "profiler/record/session.hpp"
#include "profiler/record/session_link.hpp"

namespace tarn::profiler::recorder {

// What the thread is doing in the recorder; a hook that is called within it does not record.
enum busy_kind : std::uint8_t {
  not_busy = 0,
  recording = 1,  // recording an event; one from a signal handler is lost, and counted
  // The recorder has called the dynamic linker or libc; their allocations are not the program's.
  calling = 2,
};

extern constinit session_link session;  // kept in a forked child
extern constinit rule_table rules;

enum attachment : std::uint32_t { not_attached, under_way, attached };

// Lies in memory that fork wipes for the child; zeroed memory is the initial state.
struct process_state {
  process_file file;                     // page null: not attached
  std::atomic<std::uint32_t> attaching;  // an attachment; its release and acquire publish `file`
  std::atomic<std::uint32_t> detached;   // nothing is recorded any more
  std::atomic<std::uint32_t> arriving;   // number of threads that are about to get a ring
  os::plain_mutex threads_lock;
  thread_state* threads;  // all states ever made in this process, newest first
  sampled_blocks samples;
  os::plain_mutex modules_lock;
  std::uint32_t module_count;
  std::uint64_t modules[512];  // keys of the modules recorded so far: see module_key
};
extern constinit process_state* process;  // null before start, and without a session
extern constinit bool started;
// Countdowns of this recording are relative to this value; each recording of a process has a higher one.
extern constinit std::int64_t sample_base;

struct thread_state {
  ring_header* ring;  // null: wiped in a forked child
  std::uint64_t* words;
  std::uint64_t head;
  std::uint64_t room_end;   // limit for head up to which the ring's tail need not be checked
  std::uint64_t populated;  // words of the ring whose pages are populated
  std::uint64_t last_ticks;
  std::int32_t id;
  std::uint32_t rounds;  // rounds of thread-specific destructors so far
  std::atomic<std::uint32_t> ending;
  std::uint32_t events;
  std::uint32_t nothings;  // timed calls in mode full; some are followed by a timed call that does nothing
  std::uint32_t sections;  // number of sections of the recorder's own work
  std::uint64_t random;
  std::uintptr_t old_block;  // old block of a realloc that has begun
  stack_bounds own_stack;    // the thread's stack; all of it is readable
  // Of the process's first thread: the lowest address that its stack may grow to.
  std::uintptr_t lowest_stack;
  std::uint64_t library_generation;
  thread_state* next;
  call_path path;
  python_frames python;
  // 1 while the thread writes to its ring or reads the session's memory, which must stay mapped until then.
  std::atomic<std::uint32_t> inside;

  // Returns false if nothing is recorded any more.
  bool enter() {
    // relaxed, with a compiler fence only: detach() sets `detached` first, and release_recording() is called much
    // later than a store takes to become visible (seconds_before_release).
    inside.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (process->detached.load(std::memory_order_relaxed) == 0) return true;
    leave();
    return false;
  }
  // release, pairs with the acquire in release_recording
  void leave() { inside.store(0, std::memory_order_release); }

  // Makes room for `count` words from `head` on. False: there is no room, and the event is lost.
  bool reserve(std::uint64_t count) { return head + count <= room_end || make_room(count); }
  void put(std::uint64_t word) { words[head++ & mask] = word; }
  // release, pairs with the collector's acquire in drain_process: all words below `head` are written
  void publish() { ring->head.store(head, std::memory_order_release); }
  // The ticks since the ring's last event, for an event that happens now, or at `then` (ticks of the source, not
  // shifted). After a long pause it puts a `time` word first, so it needs room for one more word. Times of a ring's
  // events never decrease.
  std::uint64_t ticks_since_last(std::uint64_t then = 0);

  std::uint64_t mask;

 private:
  bool make_room(std::uint64_t count);
  // Counts a lost event and ends recording. Returns false.
  bool give_up();
};

// Larger than any countdown to a next sample.
inline constexpr std::int64_t most_countdown = std::int64_t{1} << 48;

enum class begin_result : int { recording, no_memory, no_session, no_file };
// `place`: a value of session_variable. The calling thread is the first to record.
begin_result begin_recording(const char* place);
// Ends the recording and releases its memory. False: a thread still uses that memory; call again. After detach(),
// wait seconds_before_release before the first call, so that threads in a hook have made that visible (see enter).
bool release_recording();

// What the process has used so far.
usage_figures usage_now();
// Page faults of the calling thread so far; 0: the system call is not allowed (sandbox).
std::uint64_t thread_faults();
// In its first sections a thread touches the recorder's memory for the first time; page faults are counted in these
// sections.
inline constexpr std::uint32_t young_sections = 64;
// Adds the thread's page faults since self.faults_before to own_faults.
void count_own_faults();

// The calling thread's state, made if necessary; null: nothing is recorded.
thread_state* find_thread();
// Ends the recording of this process. The session's memory stays mapped, as other threads may be using it.
void detach();
// Makes no allocation be recorded, so that the hooks take their fastest path.
void tell_nothing();
void put_text(thread_state& thread, text_kind kind, std::string_view text, const std::uint64_t* tail,
              unsigned tail_words);
stack_memory stack_of(thread_state& thread, std::uintptr_t stack_pointer);
void find_own_stack(thread_state& state);

// Numbers of dlclose calls that have begun, and that have ended.
extern constinit std::atomic<std::uint64_t> closes_begun;
extern constinit std::atomic<std::uint64_t> closes_ended;

}  // namespace tarn::profiler::recorder
