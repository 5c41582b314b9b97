// SPDX-License-Identifier: MIT
// session_control: connects a command with the `tarn` process that records a program, by a socket in the abstract
// namespace. Its name has the program's process id and a random number, so that nobody can take it before; the command
// finds it in the kernel's list. Anybody may bind such a name, so both sides check who the other one is
// (cli/launch/peer.hpp) before they believe a byte.
//
// Requests and answers are JSON objects; an answer with "problem" and "advice" is an error. What arrives has printable
// texts and bounded size and depth. A file goes as an open descriptor: no path of the other side is used. For one thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/launch/peer.hpp"
#include "cli/launch/scratch_file.hpp"

namespace tarn::cli {

// The side of the process that records.
class session_control {
 public:
  // One per recorded program: is_open() is false if another process already has the socket.
  explicit session_control(pid_t program);

  [[nodiscard]] bool is_open() const noexcept { return socket_.number() >= 0; }
  // Handles the requests that have arrived; does not wait. If `answer` returns an empty value, the request is
  // answered later (answer_late). The file "path" of an answer is sent open, in place of its path.
  void serve(const std::function<nlohmann::json(const nlohmann::json&)>& answer);
  // Answers all requests that wait for a late answer.
  void answer_late(const nlohmann::json& answer);

 private:
  open_file socket_;
  std::vector<open_file> waiting_;
};

// The answer to a request to begin or end the recording of a program that is recorded for its whole life.
nlohmann::json already_recorded(pid_t program);
struct session_answer {
  nlohmann::json what;  // an object
  open_file file;       // as the other side has opened it: it may be anything
  peer from;
};

// Sends a request to the process that records `program` or one of its ancestors, and waits for the answer, a minute at
// most. Throws cli_error.
session_answer ask_session(pid_t program, const nlohmann::json& request);

}  // namespace tarn::cli
