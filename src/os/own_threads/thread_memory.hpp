// SPDX-License-Identifier: MIT
// thread_memory: the memory of the engine's two threads (thread.hpp), and what is known since the library was loaded.
//
// One mapping, made at load at a place that the kernel chooses:
//
//   +-------+--------------+-------+------------------------+-------+------------------------+-------+
//   | guard | control page | guard | stack and thread block | guard | stack and thread block | guard |
//   +-------+--------------+-------+------------------------+-------+------------------------+-------+
//
// Owner: thread.cpp. Thread safety: the words are atomic; the rest is read-only after load.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/futex.hpp"
#include "os/own_threads/engine_thread.hpp"
#include "os/own_threads/rights.hpp"
#include "os/sealed.hpp"

namespace tarn::os {

#pragma GCC visibility push(hidden)

enum thread_phase : std::uint32_t { none, running, leaving, wanted };

// One of the two threads.
struct thread_state {
  // The kernel stores `none` when the thread has ended, and wakes sleepers by a shared (not private) futex call.
  futex_word state{none};
  futex_word bell{0};  // of the background thread
  std::atomic<int> listener{
      0};  // id of the control thread while it watches for its signal; 0: it is not there
  std::atomic<std::uint32_t> start_after_hold{0};
  std::atomic<bool> rights_changed{false};   // they may have changed since the thread was started
  capabilities of_first_thread;              // of the process's first thread when the thread was started
  std::atomic<std::int64_t> next_try_ms{0};  // earliest time of the next start; 0: the last one succeeded
  std::atomic<std::int64_t> pause_ms{0};     // pause after the last refusal
  std::atomic<int> thread{0};  // id of the last thread, written by the kernel before clone returns
};

// The control page: all zero in a new process, and in a child that does not share its parent's memory.
struct thread_control {
  thread_state threads[engine_threads];
  std::atomic<std::uint32_t> holds{0};
  std::atomic<hold_token> token{0};  // token of the holds in this process; 0 before the first one
  std::atomic<long> process{0};      // process id; 0 in a child until note_forked_child() or the first start
  std::atomic<bool> is_first_of_namespace{false};  // process 1, whose threads have lists of robust mutexes
};

// Up to 8,192 processors.
struct processor_set {
  unsigned long bits[128];
};

struct load_values {
  thread_control* control = nullptr;  // null: there is never a thread
  char* stacks[engine_threads] = {};  // inaccessible until the first start
  std::size_t data_bytes = 0;         // on each side of the thread pointer
  processor_set processors{};
  long processors_bytes = 0;  // 0: the system did not tell
  long nice = 0;
  bool is_known = false;  // false: the thread keeps the processors and nice value of its starter
};

extern constinit sealed<load_values> at_load;

char* stack_top_of(engine_thread which);
char* thread_pointer_of(engine_thread which);
// Makes the thread's stack and block accessible, and all of it zero for the control thread: a thread before this one, or the
// parent's, has left values there. 0 or -errno.
long prepare_memory_of(engine_thread which);

// Whether the caller is in the process with the id `noted`.
bool is_process(const thread_control* c, long noted);
// Records the calling process.
void note_process(thread_control* c);

long nice_of_this_thread();
long processors_of_this_thread(processor_set& out);

#pragma GCC visibility pop

}  // namespace tarn::os
