// SPDX-License-Identifier: MIT
// running_verb: a verb of the command that runs as a child process for an agent, with what it writes, its limit of time, and all
// that it has started. The calling process must have one thread.
#pragma once

#include <poll.h>
#include <signal.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/agent/agent_tools.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/child_subreaper.hpp"
#include "cli/launch/scratch_file.hpp"

namespace tarn::cli {

// Set for the verb profile, and for none of its programs: the number of an inherited descriptor, which is to be the program's
// standard error. So the verb's own has only what the verb says, whatever the program and what it leaves behind write. libtarn
// warns of unknown names that begin with TARN_.
inline constexpr const char* program_errors_variable = "_TARN_AGENT_ERRORS";

// Nothing that the verb has started outlives this object, and little outlives this process if that is killed: what has left the
// verb's process group.
class running_verb {
 public:
  static constexpr double seconds_to_end = 2;  // for a verb that nobody waits for any more

  // Throws cli_error. `mask`: the signals that the verb begins with.
  running_verb(tool_call call, const sigset_t& mask);

  // What this object waits for, behind what is there; take() gets the same after poll().
  void add_streams(std::vector<pollfd>& streams) const;
  void take(const std::vector<pollfd>& streams);
  int milliseconds_to_wait() const;
  void reap_orphans() { keeper_.reap(process_); }

  // The verb has ended. One that is beyond its limit gets SIGTERM first: it ends its programs, and writes what it knows. A
  // recorded program that goes on is killed a little later, and the verb writes.
  bool is_over();
  void end_within(double seconds);  // returns when it has ended, or the time is over

  const tool_call& call() const { return call_; }
  verb_outcome outcome();  // once, when it is over

 private:
  bool is_recording() const { return std::string_view(call_.tool->verb) == "profile"; }
  void kill_program();

  tool_call call_;
  child_subreaper keeper_;  // destroyed after child_
  open_file output_;
  open_file errors_;
  open_file program_errors_;  // of a recorded program
  verb_outcome outcome_;
  pid_t process_ = 0;
  std::optional<group_guard> guard_;  // destroyed after child_
  std::optional<running_child> child_;
  double deadline_ = 0;  // of the next step
  bool is_terminated_ = false;
  bool has_killed_ = false;  // the recorded program
};

}  // namespace tarn::cli
