// SPDX-License-Identifier: MIT
// server_load: a server is started by others, given time to become ready, put under a load, and told to end; load_course
// does all of this but the start, for recordings and for measured runs. The calling process must have one thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"

namespace tarn::cli {

struct server_load {
  std::string command;               // the load, for a shell
  int ready_port = 0;                // the server is ready when this TCP port of this machine answers
  std::string ready_command;         // otherwise: when this command, for a shell, succeeds
  double ready_seconds = 30;         // a server that is not ready by then has failed
  double seconds_to_terminate = 15;  // for the server to end after SIGTERM
};

// Declares "--load", "--ready-port" and "--ready-command". Returns the first.
CLI::Option* add_load_options(command& app, server_load& load);
// Throws cli_error (usage) if it is not said how to see that the server is ready.
void require_complete(const server_load& load);

class load_course {
 public:
  // `shell`: the descriptors of the load; `mask`: its signals. It runs `loads` times; the figures are those of the last time. A load that is still
  // running ends with this object.
  load_course(const server_load& load, child_request shell, int loads, const sigset_t& mask);
  ~load_course();
  load_course(const load_course&) = delete;
  load_course& operator=(const load_course&) = delete;

  // Counts the server's processor time, from before it executes, so that none of its threads and children is missed. Without
  // this, it is not known.
  void count(pid_t server);
  // Why no server can be started: something else answers in its place. Empty: nothing does.
  std::string obstacle() const;
  // The next step; to be called often while the server runs. False: the server was told to end.
  bool look(pid_t server);
  // The server may take this long to see the next step, unless a child ends.
  double patience() const { return is_loading() ? 1 : 0.01; }
  bool is_loading() const { return load_.has_value(); }
  const std::string& problem() const noexcept { return problem_; }  // empty: all went well
  std::string waits_for() const;  // after look(), in the past: "the load was still running after 3 s"
  double told_at() const noexcept { return told_at_; }  // when the server was told to end, monotonic seconds

  double load_seconds() const noexcept { return load_seconds_; }
  // Processor time that the server and its descendants took during the load; never 0 without a problem.
  double server_seconds() const noexcept { return server_seconds_; }

 private:
  bool is_ready();
  void start_load(pid_t server);
  void end_load(pid_t server);
  std::string doubt_about_count(pid_t server) const;
  bool tell_to_end(pid_t server);
  pid_t start_shell(const std::string& command);
  double seconds_of(pid_t server) const;

  const server_load& settings_;
  child_request shell_;
  sigset_t mask_;
  int loads_left_;
  bool counts_ = false;
  int clock_ = -1;          // of the server and its descendants; -1: none
  double ready_began_ = 0;  // 0: the server was not asked yet
  std::optional<running_child> question_;
  std::optional<running_child> load_;
  std::string problem_;
  double told_at_ = 0;
  double load_began_ = 0;
  double server_before_ = 0;
  double load_seconds_ = 0;
  double server_seconds_ = 0;
};

}  // namespace tarn::cli
