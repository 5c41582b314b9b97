// SPDX-License-Identifier: MIT
// session_control: how a command reaches the `tarn` process that records a program: by a socket of the abstract namespace
// whose name holds the program's process id. Only the same user and root are answered, and asked.
// For one thread. Requests and answers are JSON objects; an answer with "problem" and "advice" is an error.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tarn::cli {

// The side of the process that records.
class session_control {
 public:
  // There is one per recorded program: is_open() is false where another process has it already.
  explicit session_control(pid_t program);
  ~session_control();
  session_control(const session_control&) = delete;
  session_control& operator=(const session_control&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return socket_ >= 0; }
  // Takes the requests that have come; does not wait. An empty answer of `answer` is given later.
  void serve(const std::function<nlohmann::json(const nlohmann::json&)>& answer);
  // To those that wait for theirs.
  void answer_late(const nlohmann::json& answer);

 private:
  int socket_ = -1;
  std::vector<int> waiting_;
};

// An answer to who wants to begin or end the recording of a program that is recorded for as long as it lives.
nlohmann::json already_recorded(pid_t program);
// Asks who records `program`, or a program that it descends from, and waits for the answer. Throws cli_error.
nlohmann::json ask_session(pid_t program, const nlohmann::json& request);

}  // namespace tarn::cli
