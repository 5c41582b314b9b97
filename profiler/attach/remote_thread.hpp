// SPDX-License-Identifier: MIT
// remote_thread: a thread of another process that is stopped for a moment to call functions there. Its registers, those of
// floating point, its signal mask and errno are as before afterwards; a system call that the stop has interrupted goes on.
// For one thread of this process, whose signals are held back: were it killed meanwhile, the other process would end.
// Invariant: between a stop and let_go() the thread runs only within call().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>

namespace tarn::profiler {

// Why a process cannot be recorded, and what to do about it.
class attach_error : public std::runtime_error {
 public:
  attach_error(const std::string& problem, std::string advice)
      : std::runtime_error(problem), advice_(std::move(advice)) {}
  [[nodiscard]] const std::string& advice() const noexcept { return advice_; }

 private:
  std::string advice_;
};

// It has ended; or it has called exec.
class process_gone : public attach_error {
 public:
  explicit process_gone(pid_t process);
};

class remote_thread {
 public:
  // Becomes the tracer of the thread. Throws attach_error, process_gone.
  remote_thread(pid_t process, pid_t thread);
  // Lets it go; waits for a thread that has not stopped yet.
  ~remote_thread();
  remote_thread(const remote_thread&) = delete;
  remote_thread& operator=(const remote_thread&) = delete;

  // False: it has not stopped in that time, as it sleeps where nothing can wake it. It stops when it wakes.
  bool stop(double seconds);
  // Whether it is within a sequence that the kernel restarts where it is moved to another processor.
  bool in_restartable_sequence();

  // Calls a function of the process on `stack` (its highest address; 0: on the thread's own stack, below what it uses).
  // Throws attach_error where the function does not come back, process_gone.
  std::uint64_t call(std::uint64_t function, std::initializer_list<std::uint64_t> arguments,
                     std::uint64_t stack = 0);

  // The thread goes on as if nothing had been. False: it has not stopped yet, and would stop later: to be called again.
  bool let_go();
  [[nodiscard]] pid_t thread() const noexcept { return thread_; }
  // From the stop to let_go().
  [[nodiscard]] double stopped_seconds() const noexcept { return stopped_seconds_; }

 private:
  struct state;

  void save();
  void restore() noexcept;
  // Whether it has stopped now. A thread that has ended is not seized any more.
  bool look_for_stop();
  // Of waitpid, for a thread that has stopped; or one of these.
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
