// SPDX-License-Identifier: MIT
// session_control: connects a command with the `tarn` process that records a program, by a socket in the abstract
// namespace whose name contains the program's process id. Requests are accepted from the same user and root only,
// and sent to recorders of the same user and root only; root also asks other users' recorders, with their user's
// rights. For one thread. Requests and answers are JSON objects; an answer with "problem" and "advice" is an error.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace tarn::cli {

// The side of the process that records.
class session_control {
 public:
  // One per recorded program: is_open() is false if another process already has the socket.
  explicit session_control(pid_t program);
  ~session_control();
  session_control(const session_control&) = delete;
  session_control& operator=(const session_control&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return socket_ >= 0; }
  // Handles the requests that have arrived; does not wait. If `answer` returns an empty value, the request is
  // answered later (answer_late).
  void serve(const std::function<nlohmann::json(const nlohmann::json&)>& answer);
  // Answers all requests that wait for a late answer.
  void answer_late(const nlohmann::json& answer);

 private:
  int socket_ = -1;
  std::vector<int> waiting_;
};

// The answer to a request to begin or end the recording of a program that is recorded for its whole life.
nlohmann::json already_recorded(pid_t program);
// Sends a request to the process that records `program` or one of its ancestors, and waits for the answer. Throws
// cli_error.
nlohmann::json ask_session(pid_t program, const nlohmann::json& request);

}  // namespace tarn::cli
