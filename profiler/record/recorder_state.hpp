// SPDX-License-Identifier: MIT
// recorder_state: what a process and each of its threads keep for recording, and how events get into a ring.
// Invariant of a thread: head_ - tail <= words of the ring; what is below the ring's published head is whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"
#include "profiler/record/call_path.hpp"
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
  os::plain_mutex threads_lock;
  thread_state* threads;  // all that were ever made in this process, newest first
  sampled_blocks samples;
  os::plain_mutex modules_lock;
  std::uint32_t module_count;
  std::uintptr_t module_starts[512];
};
extern constinit process_state* process;  // null before start, and where there is no session
extern constinit bool started;

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
  std::uint64_t random;
  std::uintptr_t old_block;  // of a realloc that has begun
  stack_bounds own_stack;
  stack_bounds other_stack;  // the one it was last seen on, of coroutines and signal handlers
  std::uint32_t other_stack_generation;
  std::uint32_t library_generation;
  thread_state* next;
  call_path path;

  // Where to write `count` words, one after another from `head` on (mask by index). False: there is no room, and the
  // event is lost.
  bool reserve(std::uint64_t count) { return head + count <= room_end || make_room(count); }
  void put(std::uint64_t word) { words[head++ & mask] = word; }
  // release, pairs with the collector's acquire: all words below are written
  void publish() { ring->head.store(head, std::memory_order_release); }
  // The ticks to put into an event; tells the collector of long pauses first. Needs room for one word more.
  std::uint64_t ticks_since_last();

  std::uint64_t mask;

 private:
  bool make_room(std::uint64_t count);
  // Counts a lost event and ends recording. Returns false.
  bool give_up();
};

// The calling thread's, made if need be; null: nothing is recorded.
thread_state* find_thread();
// For this process and its threads, for good.
void detach();
void put_text(thread_state& thread, text_kind kind, const char* text, const std::uint64_t* tail,
              unsigned tail_words);
const stack_bounds& bounds_of(thread_state& thread, std::uintptr_t stack_pointer);
void find_own_stack(thread_state& state);

extern constinit std::atomic<std::uint32_t> stack_generation;
extern constinit std::atomic<std::uint32_t> library_generation;

}  // namespace tarn::profiler::recorder
