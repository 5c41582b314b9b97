// SPDX-License-Identifier: MIT
#include "cli/recording/session_control.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "cli/launch/other_user.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_bytes = 65536;
constexpr int answer_ms = 60000;
constexpr int request_ms = 200;  // time for a connected client to send its request
constexpr int most_forebears = 64;

struct socket_name {
  sockaddr_un address = {};
  socklen_t length = 0;
};

socket_name name_for(pid_t program) {
  socket_name name;
  name.address.sun_family = AF_UNIX;
  const std::string text = fmt::format("tarn-control-{}", program);
  std::copy(text.begin(), text.end(), name.address.sun_path + 1);
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

constexpr uid_t nobody = ~uid_t{0};

uid_t user_behind(int socket) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.uid : nobody;
}

bool is_trusted(int socket) {
  const uid_t user = user_behind(socket);
  return user == geteuid() || user == 0;
}

void send_json(int socket, const nlohmann::json& what) {
  const std::string text = json_text(what);
  send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

// Empty value: nothing arrived in time, or it was no JSON.
nlohmann::json receive_json(int socket, int wait_ms) {
  pollfd one = {socket, POLLIN, 0};
  if (poll(&one, 1, wait_ms) <= 0) return {};
  std::string text(most_bytes, 0);
  const ssize_t bytes = recv(socket, text.data(), text.size(), 0);
  if (bytes <= 0) return {};
  text.resize(static_cast<std::size_t>(bytes));
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  return value.is_object() ? value : nlohmann::json();
}

// A connection to the process that records exactly this program; -1: there is none that can be trusted.
int connect_to(pid_t program) {
  const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  const socket_name name = name_for(program);
  if (connect(made, reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0 &&
      (is_trusted(made) || (geteuid() == 0 && user_behind(made) != nobody))) {
    return made;
  }
  close(made);
  return -1;
}

int connect_to_recorder_of(pid_t program) {
  for (int count = 0; count < most_forebears && program > 0; ++count) {
    const int connection = connect_to(program);
    if (connection >= 0) return connection;
    const std::string status = profiler::proc_text(static_cast<std::uint32_t>(program), "status");
    program = static_cast<pid_t>(std::strtol(profiler::status_line(status, "PPid").c_str(), nullptr, 10));
  }
  return -1;
}

}  // namespace

session_control::session_control(pid_t program) {
  const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return;
  const socket_name name = name_for(program);
  if (bind(made, reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0 &&
      listen(made, 8) == 0) {
    socket_ = made;
  } else {
    close(made);
  }
}

session_control::~session_control() {
  for (const int one : waiting_) close(one);
  if (socket_ >= 0) close(socket_);
}

void session_control::serve(const std::function<nlohmann::json(const nlohmann::json&)>& answer) {
  if (socket_ < 0) return;
  for (;;) {
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    const nlohmann::json request =
        is_trusted(connection) ? receive_json(connection, request_ms) : nlohmann::json();
    const nlohmann::json reply = request.is_object() ? answer(request) : nlohmann::json::object();
    if (reply.empty() && request.is_object()) {
      waiting_.push_back(connection);
      continue;
    }
    send_json(connection, reply);
    close(connection);
  }
}

void session_control::answer_late(const nlohmann::json& answer) {
  for (const int one : waiting_) {
    send_json(one, answer);
    close(one);
  }
  waiting_.clear();
}

nlohmann::json already_recorded(pid_t program) {
  return {
      {"problem", fmt::format("process {} is already being recorded", program)},
      {"advice",
       fmt::format("To write its data so far: tarn dump {0}. To end a recording begun by tarn attach: tarn "
                   "detach {0}. A recording by tarn profile lasts until the program ends.",
                   program)}};
}

nlohmann::json ask_session(pid_t program, const nlohmann::json& request) {
  const int connection = connect_to_recorder_of(program);
  if (connection < 0) {
    throw cli_error(exit_code::refused, fmt::format("process {} is not being recorded by this user", program),
                    fmt::format("Begin a recording: tarn attach {}", program));
  }
  // Root takes the rights of the user whose tarn it asks, as it is going to act on the answer.
  if (user_behind(connection) != 0) become_user_of(program);
  send_json(connection, request);
  nlohmann::json answer = receive_json(connection, answer_ms);
  close(connection);
  if (answer.is_null()) {
    throw cli_error(exit_code::refused,
                    fmt::format("the tarn process that records process {} does not answer", program),
                    "It may have just ended; check whether its file exists.");
  }
  if (answer.contains("problem")) {
    throw cli_error(exit_code::refused, answer.value("problem", ""), answer.value("advice", ""));
  }
  return answer;
}

}  // namespace tarn::cli
