// SPDX-License-Identifier: MIT
// remote_thread: a thread of another process that is stopped for a moment to call functions there. Afterwards its
// registers, floating-point registers, signal mask and errno are as before; an interrupted system call is resumed.
// For one thread of this process.
// Invariant: between a stop and let_go() the thread runs only within calls. Whenever this process ends, killed or not,
// the thread goes on with its own work: from each state between the stop and let_go() the thread's own next steps lead
// to rt_sigreturn with a frame that has its former state (thread_state.hpp). So each change of registers comes after
// the frame is in memory, and the signal mask is changed after that and restored before.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "profiler/attach/attach_error.hpp"
#include "profiler/attach/libc_code.hpp"
#include "profiler/attach/thread_state.hpp"

namespace tarn::profiler {

// Monotonic time.
inline double now_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline void pause_for(double seconds) {
  timespec time = {};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>(1e9 * (seconds - static_cast<double>(time.tv_sec)));
  nanosleep(&time, nullptr);
}

// A call in the process has not returned in time: it was taken back while it waited for a lock, and did nothing.
struct call_taken_back {};

// How long a call may take.
struct call_limits {
  std::uint64_t lock = 0;  // of the dynamic linker: a call that waits for it is taken back; 0: unknown
  double seconds_for_lock = 0.1;
  double seconds = 3;           // then the process is left alone, and the call goes on in it
  std::function<bool()> go_on;  // called now and then; false: someone wants this process to end
};

class remote_thread {
 public:
  // Becomes the tracer of the thread. Throws attach_error, process_gone.
  remote_thread(pid_t process, pid_t thread);
  // Lets the thread go; waits first if it was asked to stop and has not stopped yet, but not for ever.
  ~remote_thread();
  remote_thread(const remote_thread&) = delete;
  remote_thread& operator=(const remote_thread&) = delete;

  // False: the thread has not stopped in that time, as it is in an uninterruptible sleep. It will stop when it
  // wakes.
  bool stop(double seconds);
  // Whether the thread is within a restartable sequence (rseq), which must not be left by a call.
  bool in_restartable_sequence();

  // Makes memory in the process for calls: a stack and the code to which they return. Throws attach_error, process_gone.
  void begin_calls(const libc_code& code, call_limits limits = {});
  // Calls a function of the process. Throws process_gone, call_taken_back, and attach_error if the function does not
  // return.
  std::uint64_t call(std::uint64_t function, std::initializer_list<std::uint64_t> arguments);
  // The lower end of the stack of calls: room_bytes that calls do not use.
  static constexpr std::uint64_t room_bytes = 8 << 10;
  [[nodiscard]] std::uint64_t room() const noexcept { return stack_; }
  // Each thread has its own errno there; it will be as it is now. Returns false if it cannot be read.
  bool keep_errno(std::uint64_t address);

  // The thread continues as if nothing had happened. False: it has not stopped yet, and would stop later; call
  // again.
  bool let_go();
  [[nodiscard]] pid_t thread() const noexcept { return thread_; }
  // Time from the stop to let_go().
  [[nodiscard]] double stopped_seconds() const noexcept { return stopped_seconds_; }

 private:
  // The result of next_status: a wait status of a stop, or one of these.
  static constexpr int running = -1;
  static constexpr int ended = -2;

  int next_status();
  // Whether the thread has stopped now. A thread that has ended is not seized any more.
  bool look_for_stop();
  // Waits for a stop. One of the whole process is to wait; but in a stopped process a stop for which this one `was_asked`
  // looks like that. `running`: none came in that time.
  int wait_for_stop(double seconds, int how_to_go_on, bool was_asked = false);
  // Stops the thread within the kernel, before it returns to the program. False: not in that time.
  bool stop_again(double seconds);
  void cover_own_stack();
  void uncover_own_stack() noexcept;
  std::uint64_t system_call(long number, std::initializer_list<std::uint64_t> arguments);
  void write_return_code();
  std::uint64_t result_of_call(double began);
  bool may_wait_for_lock() const;
  void give_up_if_late(double began, double& limit);
  [[noreturn]] void fail_crashed(int status);
  [[noreturn]] void leave_in_call();
  bool ends_calls() noexcept;
  void restore() noexcept;

  pid_t process_;
  pid_t thread_;
  bool seized_ = false;
  bool stopping_ = false;
  bool stopped_ = false;
  bool changed_ = false;  // its registers are those of a call
  bool masked_ = false;
  bool was_interrupted_ =
      false;  // within a call, so that the kernel no longer knows when a sleep of before was to end
  double begin_ = 0;
  double stopped_seconds_ = 0;
  thread_state before_;
  thread_state after_;  // with which it goes on if this process is killed
  libc_code code_;
  call_limits limits_;
  std::uint64_t stack_ = 0;   // memory of the calls; 0: none
  std::uint64_t return_ = 0;  // page of the code to which they return
  std::uint64_t frame_ = 0;
  std::uint64_t covered_address_ =
      0;  // where a frame lies on the thread's own stack, and what was there before
  std::vector<unsigned char> covered_;
  std::uint64_t error_address_ = 0;
  int error_ = 0;
};

}  // namespace tarn::profiler
