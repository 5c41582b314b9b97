// SPDX-License-Identifier: MIT
// remote_thread: a thread of another process that is stopped for a moment to call functions there. Afterwards its
// registers, floating-point registers, signal mask and errno are as before; an interrupted system call is resumed.
// For one thread of this process, whose signals are blocked: if this process were killed during a call, the other would
// crash. Invariant: between a stop and let_go() the thread runs only within call().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "profiler/attach/attach_error.hpp"

namespace tarn::profiler {

class remote_thread {
 public:
  // Becomes the tracer of the thread. Throws attach_error, process_gone.
  remote_thread(pid_t process, pid_t thread);
  // Lets the thread go; waits first if it was asked to stop and has not stopped yet.
  ~remote_thread();
  remote_thread(const remote_thread&) = delete;
  remote_thread& operator=(const remote_thread&) = delete;

  // False: the thread has not stopped in that time, as it is in an uninterruptible sleep. It will stop when it
  // wakes.
  bool stop(double seconds);
  // Whether the thread is within a restartable sequence (rseq), which must not be left by a call.
  bool in_restartable_sequence();

  // Calls a function of the process on `stack` (its highest address; 0: the thread's own stack, below the part in
  // use). Throws process_gone, and attach_error if the function does not return.
  std::uint64_t call(std::uint64_t function, std::initializer_list<std::uint64_t> arguments,
                     std::uint64_t stack = 0);

  // The thread continues as if nothing had happened. False: it has not stopped yet, and would stop later; call
  // again.
  bool let_go();
  [[nodiscard]] pid_t thread() const noexcept { return thread_; }
  // Time from the stop to let_go().
  [[nodiscard]] double stopped_seconds() const noexcept { return stopped_seconds_; }

 private:
  struct state;

  void save();
  void restore() noexcept;
  // Whether the thread has stopped now. A thread that has ended is not seized any more.
  bool look_for_stop();
  // The result of next_status: a wait status of a stop, or one of these.
  static constexpr int running = -1;
  static constexpr int ended = -2;
  int next_status(int flags);
  // Waits for the thread to stop. Returns the status of waitpid.
  int wait_for_stop();

  pid_t process_;
  pid_t thread_;
  bool seized_ = false;
  bool stopping_ = false;
  bool stopped_ = false;
  bool changed_ = false;
  double begin_ = 0;
  double stopped_seconds_ = 0;
  std::unique_ptr<state> saved_;
};

}  // namespace tarn::profiler
