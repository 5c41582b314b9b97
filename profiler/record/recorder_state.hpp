// SPDX-License-Identifier: MIT
// recorder_state: what a process and each of its threads keep for recording, and how events get into a ring.
// Invariant of a thread: head_ - tail <= words of the ring; what is below the ring's published head is whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/mutex.hpp"
#include "profiler/record/call_path.hpp"
#include "profiler/record/python_frames.hpp"
#include "profiler/record/recorder.hpp"
#include "profiler/record/sampled_blocks.hpp"
#include "profiler/record/session.hpp"
#include "profiler/record/session_link.hpp"

namespace tarn::profiler::recorder {

// Why a hook that interrupts another is let through unrecorded.
enum busy_kind : std::uint8_t {
  not_busy = 0,
  recording = 1,  // a signal handler: its event is lost, and counted
  calling = 2,    // the recorder has called the dynamic linker or libc
};

extern constinit session_link session;  // outlives fork
extern constinit rule_table rules;

enum attachment : std::uint32_t { not_attached, under_way, attached };

// In memory that a forked child finds wiped; zeroed is the beginning.
struct process_state {
  process_file file;                     // without a page: not attached
  std::atomic<std::uint32_t> attaching;  // an attachment; orders `file`
  std::atomic<std::uint32_t> detached;   // nothing is recorded any more
  std::atomic<std::uint32_t> arriving;   // threads that are about to get a ring
  os::plain_mutex threads_lock;
  thread_state* threads;  // all that were ever made in this process, newest first
  sampled_blocks samples;
  os::plain_mutex modules_lock;
  std::uint32_t module_count;
  std::uint64_t modules[512];  // that have been told: see module_key
};
extern constinit process_state* process;  // null before start, and where there is no session
extern constinit bool started;
// What countdowns of this recording are counted from; each recording of a process has a higher one.
extern constinit std::int64_t sample_base;

struct thread_state {
  ring_header* ring;  // null: a forked child has found it wiped
  std::uint64_t* words;
  std::uint64_t head;
  std::uint64_t room_end;   // up to where may be written without looking at the ring's tail
  std::uint64_t populated;  // up to where the ring's pages are there for this process
  std::uint64_t last_ticks;
  std::int32_t id;
  std::uint32_t rounds;  // of thread-specific destructors that have been gone through
  std::atomic<std::uint32_t> ending;
  std::uint32_t events;
  std::uint32_t nothings;  // timed calls, in mode full
  std::uint32_t sections;  // of the recorder's own work
  std::uint64_t random;
  std::uintptr_t old_block;     // of a realloc that has begun
  stack_bounds own_stack;       // all of it can be read
  std::uintptr_t lowest_stack;  // of the process's first thread: how far its stack may grow
  std::uint64_t library_generation;
  thread_state* next;
  call_path path;
  python_frames python;
  // The thread writes to its ring, or reads what belongs to the session. Those must stay until it has left.
  std::atomic<std::uint32_t> inside;

  // False: nothing is recorded any more.
  bool enter() {
    // relaxed, with a fence for the compiler: who takes the session away says so in `detached` first, and waits for much
    // longer than a store takes to be seen.
    inside.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (process->detached.load(std::memory_order_relaxed) == 0) return true;
    leave();
    return false;
  }
  // release, pairs with the acquire of who takes the session away
  void leave() { inside.store(0, std::memory_order_release); }

  // Where to write `count` words, one after another from `head` on (mask by index). False: there is no room, and the
  // event is lost.
  bool reserve(std::uint64_t count) { return head + count <= room_end || make_room(count); }
  void put(std::uint64_t word) { words[head++ & mask] = word; }
  // release, pairs with the collector's acquire: all words below are written
  void publish() { ring->head.store(head, std::memory_order_release); }
  // The ticks to put into an event that happens now, or happened at `then`, ticks of the source, not shifted; tells the
  // collector of long pauses first. Needs room for one word more. No event is earlier than the one before it.
  std::uint64_t ticks_since_last(std::uint64_t then = 0);

  std::uint64_t mask;

 private:
  bool make_room(std::uint64_t count);
  // Counts a lost event and ends recording. Returns false.
  bool give_up();
};

// More bytes than a thread counts down to its next sample.
inline constexpr std::int64_t most_countdown = std::int64_t{1} << 48;

enum class begin_result : int { recording, no_memory, no_session, no_file };
// `place`: as in session_variable. The calling thread is the first that records.
begin_result begin_recording(const char* place);
// Ends the recording, and gives back what belongs to it. False: a thread is still using that; to be called again. Not to
// be called before threads that were in a hook when detach() was called have had time to tell so (see enter).
bool release_recording();

// Page faults of the calling thread so far; 0: that may not be asked for.
std::uint64_t thread_faults();
// A thread's first sections touch what the recorder needs for the first time: in them its page faults are counted.
inline constexpr std::uint32_t young_sections = 64;
// What has come since self.faults_before.
void count_own_faults();

// The calling thread's, made if need be; null: nothing is recorded.
thread_state* find_thread();
// Ends the recording of this process. What belongs to the session stays, as threads may be using it.
void detach();
// Nothing wants to be told: what the hooks cost then is least.
void tell_nothing();
void put_text(thread_state& thread, text_kind kind, std::string_view text, const std::uint64_t* tail,
              unsigned tail_words);
stack_memory stack_of(thread_state& thread, std::uintptr_t stack_pointer);
void find_own_stack(thread_state& state);

// Calls of dlclose that have begun, and those that have ended.
extern constinit std::atomic<std::uint64_t> closes_begun;
extern constinit std::atomic<std::uint64_t> closes_ended;

}  // namespace tarn::profiler::recorder
