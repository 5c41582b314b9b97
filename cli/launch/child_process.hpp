// SPDX-License-Identifier: MIT
// child_process: starts programs and waits for them; the only place that forks. It uses fork, not vfork: the kernel
// counts the memory of the process that calls exec into the program's peak RSS, which after vfork would be the peak
// of this command. A forked copy has only what this command holds at that moment. The calling process must have one thread.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "cli/launch/environment.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {

struct child_request {
  std::string path = {};
  std::vector<std::string> arguments = {};  // argv, the program's name first
  environment variables = {};
  int standard_input = -1;  // descriptors; -1 inherits
  int standard_output = -1;
  int standard_error = -1;
  std::string folder = {};        // to begin in; empty: this process's
  bool own_group = false;         // a process group of its own, so that it can be killed as a whole
  bool ends_with_parent = false;  // gets SIGTERM when this process ends, however it does
  // Called in this process while the child waits to execute the program, so that a count misses nothing. Must not throw.
  std::function<void(pid_t)> before_exec = {};
};

// Blocks the given signals, so that sigtimedwait takes them and none is lost; children get the mask from before.
// Restores the mask at the end. Messages are bounded meanwhile: no signal would end a write that waits for ever.
class held_signals {
 public:
  explicit held_signals(const std::vector<int>& numbers);
  held_signals(std::initializer_list<int> numbers) : held_signals(std::vector<int>(numbers)) {}
  ~held_signals();
  held_signals(const held_signals&) = delete;
  held_signals& operator=(const held_signals&) = delete;

  // They stay held after this object's end, until end_like(): what this process still writes is not cut off by the second
  // of two signals, as timeout(1) sends them.
  void keep() { is_kept_ = true; }
  // Waits for one of them, `seconds` at most; 0: none has come.
  int take(double seconds) const;
  const sigset_t& held() const noexcept { return held_; }
  const sigset_t& before() const noexcept { return before_; }

 private:
  sigset_t held_ = {};
  sigset_t before_ = {};
  struct sigaction child_action_before_ = {};
  bool is_kept_ = false;
  bounded_messages bounded_;
};

// Thrown when this process gets a signal to end (SIGINT …); the program has been killed by then.
struct interrupted {
  int signal;
};

// Returns once the program has been executed; throws cli_error (126, 127) when it cannot be.
pid_t start_child(const child_request& request, const sigset_t& mask);

// The peak RSS in bytes that any program shows at least when this process starts it: that of a copy of this process.
double least_peak_rss();

// Waits for the end of the child, and returns its wait status.
int reap(pid_t child);

struct captured_output {
  int wait_status = 0;
  bool timed_out = false;
  std::string output;
  std::string errors;
};

// Runs to the end with stdin empty and both outputs collected; kills after `timeout_seconds`.
captured_output run_captured(child_request request, double timeout_seconds);

double monotonic_seconds();
// Processor time of the calling thread, which other programs do not influence.
double thread_seconds();
double seconds_of(const timeval& time);
timespec to_timespec(double seconds);

// Ends this process as the child ended: by the same signal, without a second core dump, or with
// the same status. The caller has released its resources.
[[noreturn]] void end_like(int wait_status);

// A child process in its own process group. None of the group outlives this object. Until then the child, if it has ended, is
// not reaped, so that the group's number belongs to no other.
class running_child {
 public:
  // Requires: `process` was started with own_group.
  explicit running_child(pid_t process) : process_(process) {}
  ~running_child() { kill_group(); }
  running_child(const running_child&) = delete;
  running_child& operator=(const running_child&) = delete;

  bool has_ended();        // does not wait
  void terminate() const;  // SIGTERM, to the child alone, which takes it also if it was stopped
  void terminate_group() const;
  void kill_group();  // also after the child has ended; waits for the end of all

  // Valid after the child has ended.
  int wait_status() const { return wait_status_; }
  const rusage& usage() const { return usage_; }

 private:
  pid_t process_;
  bool ended_ = false;
  bool reaped_ = false;
  int wait_status_ = 0;
  rusage usage_ = {};
};

// While it lives: if this process ends, however it does, all of the group are killed: when its leader has ended, and after
// `seconds` at the latest. For that a small process of the group waits; it ends with the group. Requires: the group's leader is a
// child of this process, and has not been waited for.
class group_guard {
 public:
  group_guard(pid_t group, double seconds);  // throws cli_error
  ~group_guard();
  group_guard(const group_guard&) = delete;
  group_guard& operator=(const group_guard&) = delete;

 private:
  int life_ = -1;  // an end of a pipe, which the system closes with this process
};

// Sleeps until a child may have ended, or `seconds` have passed. Throws interrupted when this process is told to
// end. Requires: SIGCHLD and those signals are held.
void sleep_until_signal(const held_signals& signals, double seconds);

// False: `child` still runs at `deadline` (of monotonic_seconds; 0: none). Calls `each_second` about once a second.
// Throws interrupted.
bool wait_for_end(running_child& child, double deadline, const held_signals& signals,
                  const std::function<void()>& each_second);

}  // namespace tarn::cli
