// SPDX-License-Identifier: MIT
// recorder_state: the recorder's state of a process and of each thread, and how events get into a ring.
//
// The ring of a thread. Positions count words and only grow; the index of a word is its position & mask:
//
//   ring->tail ..... ring->head ...... head ............ room_end ............. ring->tail + mask + 1
//     to be read       being written     free, populated    not known to be free, without memory
//
// The thread writes ring->head, the collector ring->tail. Invariant: head <= room_end <= ring->tail + mask + 1; all words
// below ring->head are complete.
//
// Thread safety: a thread_state belongs to its thread; other threads use only `id`, `next`, `ending` and `inside`,
// until one of them takes over the state of a thread that has ended, or release_recording() frees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "os/mutex.hpp"
#include "profiler/record/call_path.hpp"
#include "profiler/record/hook_state.hpp"
#include "profiler/record/lua_frames.hpp"
#include "profiler/record/module_names.hpp"
#include "profiler/record/own_stack.hpp"
#include "profiler/record/python_frames.hpp"
#include "profiler/record/sampled_blocks.hpp"
#include "profiler/record/script_lines.hpp"
#include "profiler/record/session.hpp"
#include "profiler/record/session_link.hpp"

namespace tarn::profiler::recorder {

// The values of self.busy: what the thread is doing in the recorder. Hooks record only while it is not_busy.
enum busy_kind : std::uint8_t {
  not_busy = 0,
  recording = 1,  // recording an event; an event of a signal handler meanwhile is counted as lost
  calling = 2,    // inside a call of the dynamic linker or libc; their allocations are not the program's
  holding = 3,    // as recording, with a lock: a thread that leaves by a jump records nothing any more
};

extern constinit session_link session;  // kept in a forked child
extern constinit rule_table rules;

inline std::uint64_t ticks_now() { return read_ticks(session.header->ticks) >> session.header->tick_shift; }

enum attachment : std::uint32_t { not_attached, under_way, attached };

// Lies in memory that fork wipes for the child; zeroed memory is the initial state.
struct process_state {
  process_file file;                     // page null: not attached
  std::atomic<std::uint32_t> attaching;  // an attachment; its release and acquire publish `file`
  std::atomic<std::uint32_t> detached;   // 1: nothing is recorded any more
  std::atomic<std::uint32_t> arriving;   // number of threads that are about to get a ring
  os::plain_mutex threads_lock;
  thread_state* threads TARN_GUARDED_BY(threads_lock);  // all states of this recording, newest first
  sampled_blocks samples;
  std::atomic<std::uint64_t> distances_drawn;  // by all threads
  std::atomic<const block_filter*> large;      // mode full: the filter of `samples`; null: it is empty
  reported_modules reported;                   // in rings of this process
};
extern constinit process_state* process;  // null until begin_recording is called
extern constinit bool started;            // start() has looked for a session, or begin_recording was called
// A thread's countdown to the next sample ends at this value, not at 0. Each recording of a process has a higher one,
// so all countdowns that an earlier recording left in threads have ended.
extern constinit std::int64_t sample_base;

struct thread_state {
  ring_header* ring;  // null: wiped in a forked child
  std::uint64_t* words;
  std::uint64_t head;
  std::uint64_t room_end;  // the words from head to room_end are free, and their pages populated
  std::uint64_t step;      // words that were populated last
  std::uint64_t mask;      // words of the ring - 1
  std::uint64_t last_ticks;
  std::int32_t id;       // the kernel's thread id
  std::uint32_t rounds;  // rounds of thread-specific destructors so far
  // 1: the last of these rounds is over. Once the thread is gone, another one may take over this state and its ring.
  std::atomic<std::uint32_t> ending;
  std::uint32_t events;  // call paths looked up
  bool has_countdown;    // mode sample: the countdown to the first sample was drawn
  bool is_introduced;    // the ring has its `thread` word
  // The collector was silent when the ring was full: events are lost until it begins another round than this one.
  bool is_interrupted;
  std::uint64_t interrupted_in;
  // Of the distance from which the countdown under way was drawn; those that the ring has (note_kind::halvings).
  std::uint32_t halvings;
  std::uint32_t reported_halvings;
  std::uint32_t nothings;    // mode full: timed calls; time_nothing() times an empty call after some of them
  std::uint32_t sections;    // times that the recorder has worked within a hook (section in recorder.cpp)
  std::uint64_t random;      // state of the random numbers
  std::uintptr_t old_block;  // old block of a realloc that has begun
  std::size_t old_size;      // its size as leaves() gave it
  // 1 while the thread uses its ring or other memory of the session, which must stay mapped meanwhile.
  std::atomic<std::uint32_t> inside;
  own_stack stack;
  // Of library_generation() in thread_paths.cpp; `path` and `modules` are of it.
  std::uint64_t library_generation;
  recent_modules modules;
  thread_state* next;
  call_path path;  // its first frames lie in the first page, too
  script_lines lines;
  python_frames python;
  lua_frames lua;

  // Returns false if nothing is recorded any more.
  bool enter() {
    // relaxed, with a compiler fence only: detach() sets `detached` first, and release_recording() is called much
    // later than a store takes to become visible (seconds_before_release).
    inside.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (process->detached.load(std::memory_order_relaxed) == 0 && (!is_interrupted || resume())) return true;
    leave();
    return false;
  }
  // release: partner of the acquire in release_recording
  void leave() { inside.store(0, std::memory_order_release); }
  // A jump has left the recorder's work on an event: what it has not published is dropped.
  void start_anew();
  // Tells the collector of the thread, with which the ring's events begin.
  void introduce();

  // Makes room for `count` words from `head` on. False: there is no room, and the event is lost.
  bool reserve(std::uint64_t count) { return head + count <= room_end || make_room(count); }
  void put(std::uint64_t word) { words[head++ & mask] = word; }
  // release: partner of the collector's acquire in ring_set::drain: all words below `head` are written
  void publish() { ring->head.store(head, std::memory_order_release); }
  // The ticks since the ring's last event, in the ring's unit (session_header::tick_shift). `then`: the time of the
  // new event, as read_ticks returns it; 0: now. After a long pause it puts a `time` word first, so it needs room for
  // one more word. Times of a ring's events never decrease.
  std::uint64_t ticks_since_last(std::uint64_t then = 0) {
    std::uint64_t now = then != 0 ? then >> session.header->tick_shift : ticks_now();
    // A signal handler has recorded a later event in between.
    if (now < last_ticks) now = last_ticks;
    std::uint64_t passed = now - last_ticks;
    if (passed > most_ticks) {
      put(static_cast<std::uint64_t>(word_kind::time) | now << kind_bits);
      passed = 0;
    }
    last_ticks = now;
    return passed;
  }

 private:
  bool make_room(std::uint64_t count);
  void populate_more(std::uint64_t tail);
  // Drops what is not published, and all nodes. False: there is no room to say so.
  bool begin_anew();
  // False: the collector has not come back, and the event is lost.
  bool resume();
  // Each returns false.
  bool interrupt();  // the collector is silent: counts a lost event
  bool give_up();    // ends the recording
};

inline constexpr std::uint32_t none_reported = UINT32_MAX;  // of thread_state::reported_halvings

// More bytes than any countdown to a next sample; sample_base grows by as much from one recording to the next.
inline constexpr std::int64_t most_countdown = std::int64_t{1} << 48;

// Null: no memory. The kernel wipes it in a forked child.
void* map_wiped(std::size_t bytes);
long pid_now();
// Attaches the process to the session, once. One thread does it; until it is done the others do not record.
bool attach();
// Has the states of threads marked as those end, so that others can take them over.
void follow_thread_ends();
// Releases the states of ended threads. Those of running threads are wiped instead, which is how a forked child finds them.
void release_threads() TARN_REQUIRES(process->threads_lock);

enum class begin_result : int { recording, no_memory, no_session, no_file };
// `place`: a value of session_variable. The calling thread is the first to record.
begin_result begin_recording(const char* place);
// Ends the recording and releases its memory. False: a thread still uses that memory; call again. After detach(),
// wait seconds_before_release before the first call: see thread_state::enter.
bool release_recording();

// What the process has used so far.
usage_figures usage_now();
// Page faults of the calling thread so far; 0: the system call is not allowed (sandbox).
std::uint64_t thread_faults();
// A thread's first uses of the recorder (thread_state::sections) touch fresh memory: page faults are counted in these.
inline constexpr std::uint32_t young_sections = 64;
// Adds the thread's page faults since self.faults_before to process_page::own_faults.
void count_own_faults();

// The calling thread's state, made if necessary; null: nothing is recorded.
thread_state* find_thread();
// Ends the recording of this process. The session's memory stays mapped, as other threads may be using it.
void detach();
// From now on the hooks do not call the recorder for allocations below large_block_bytes.
void record_nothing();
// Writes the text, then `tail_words` words from `tail`, as one entry of the ring. Without room it is lost.
void put_text(thread_state& thread, text_kind kind, std::string_view text, const std::uint64_t* tail,
              unsigned tail_words);
// The node of the call path from `origin` in the thread's ring.
std::uint32_t node_of(thread_state& thread, const call_origin& origin);

}  // namespace tarn::profiler::recorder
