// SPDX-License-Identifier: MIT
#include "cli/recording/session_control.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_answer_bytes = 65536;
constexpr int answer_ms = 60000;
constexpr int request_ms = 200;  // time for a connected client to send its request
constexpr int most_forebears = 64;
constexpr std::size_t most_names = 65536;  // tried for one program, as anybody may bind such a name
constexpr int most_requests = 64;          // in one call, so that nobody keeps the recording from its work
constexpr int most_tries = 5;

struct socket_name {
  sockaddr_un address = {};
  socklen_t length = 0;
};

socket_name name_for(const std::string& text) {
  socket_name name;
  name.address.sun_family = AF_UNIX;
  std::copy(text.begin(), text.end(), name.address.sun_path + 1);
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

// The kernel's list shows an abstract name with "@" in front.
std::string beginning_of_names(pid_t program) { return fmt::format("tarn-control-{}.", program); }

// Nobody can take this name before its owner does.
std::string socket_text(pid_t program) {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = static_cast<std::uint64_t>(getpid());
  return beginning_of_names(program) + fmt::format("{:016x}", number);
}

// Whoever binds a name chooses it, so this says only whom to ask: the peer behind each is checked.
std::vector<std::string> names_for(pid_t program) {
  const std::string beginning = beginning_of_names(program);
  std::ifstream list("/proc/self/net/unix");
  std::vector<std::string> names;
  for (std::string line; names.size() < most_names && std::getline(list, line);) {
    const std::size_t at = line.rfind(" @");
    if (at == std::string::npos || line.compare(at + 2, beginning.size(), beginning) != 0) continue;
    const std::string name = line.substr(at + 2);
    const bool is_ours = name.size() == beginning.size() + 16 &&
                         name.find_first_not_of("0123456789abcdef", beginning.size()) == std::string::npos;
    if (is_ours && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

void send_json(int socket, const nlohmann::json& what, int file = -1) {
  std::string text = json_text(what);
  iovec part = {text.data(), text.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof file)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(head), &file, sizeof file);
  }
  sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// An answer's "path" goes as an open file, so that the other side acts on no name.
void send_answer(int socket, nlohmann::json answer) {
  const std::string path = profiler::text_in(answer, "path");
  if (path.empty()) return send_json(socket, answer);
  answer.erase("path");
  const open_file file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) {
    answer = {{"problem", fmt::format("{}: cannot be read: {}", path, std::strerror(errno))},
              {"advice", "The recording continues. Try again later."}};
  }
  send_json(socket, answer, file.number());
}

struct received {
  nlohmann::json what;  // null: nothing arrived in time, or it was no JSON object
  open_file file;
};

received receive_json(int socket, int wait_ms) {
  received out;
  pollfd one = {socket, POLLIN, 0};
  if (poll(&one, 1, wait_ms) <= 0) return out;
  std::string text(most_answer_bytes, 0);
  iovec part = {text.data(), text.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;  // of several descriptors the kernel closes what has no room
  const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (bytes <= 0) return out;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(head), sizeof file);
    out.file = open_file(file);
  }
  text.resize(static_cast<std::size_t>(bytes));
  std::string problem;
  const nlohmann::json value = profiler::read_json_object(text, "answer", problem);
  if (value.is_object()) out.what = printable_json(value);
  return out;
}

struct connection {
  open_file socket;
  struct peer peer;
};

open_file new_socket() {
  return open_file(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// A connection to the process that records exactly this program; -1: there is none that can be trusted. `asked`: the
// program that is asked for, which may be a descendant.
connection connect_to(pid_t program, pid_t asked, const std::string& except = {}) {
  for (const std::string& text : names_for(program)) {
    if (text == except) continue;
    open_file made = new_socket();
    if (made.number() < 0) break;
    const socket_name name = name_for(text);
    if (connect(made.number(), reinterpret_cast<const sockaddr*>(&name.address), name.length) != 0) continue;
    const auto who = peer_of(made.number());
    if (who && may_record(*who, asked)) return {std::move(made), *who};
  }
  return {};
}

connection connect_to_recorder_of(pid_t program) {
  pid_t each = program;
  for (int count = 0; count < most_forebears && each > 0; ++count) {
    connection found = connect_to(each, program);
    if (found.socket.number() >= 0) return found;
    const std::string status = profiler::proc_text(static_cast<std::uint32_t>(each), "status");
    each = static_cast<pid_t>(std::strtol(profiler::status_line(status, "PPid").c_str(), nullptr, 10));
  }
  return {};
}

bool has_recorder(pid_t program, const std::string& except = {}) {
  return connect_to(program, program, except).socket.number() >= 0;
}

}  // namespace

// Two that begin at the same moment find each other after listen(): both give way, and try again.
session_control::session_control(pid_t program) {
  for (int tries = 0; tries < most_tries && !has_recorder(program); ++tries) {
    open_file made = new_socket();
    if (made.number() < 0) return;
    const std::string text = socket_text(program);
    const socket_name name = name_for(text);
    const auto* const address = reinterpret_cast<const sockaddr*>(&name.address);
    if (bind(made.number(), address, name.length) == 0 && listen(made.number(), most_requests) == 0 &&
        !has_recorder(program, text)) {
      socket_ = std::move(made);
      return;
    }
    made = {};
    usleep(1000 * (1 + static_cast<useconds_t>(text.back() % 16)));
  }
}

void session_control::serve(const std::function<nlohmann::json(const nlohmann::json&)>& answer) {
  if (!is_open()) return;
  for (int count = 0; count < most_requests; ++count) {
    open_file connection(accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.number() < 0) return;
    const auto who = peer_of(connection.number());
    const nlohmann::json request =
        who && may_ask(*who) ? receive_json(connection.number(), request_ms).what : nlohmann::json();
    const nlohmann::json reply = request.is_object() ? answer(request) : nlohmann::json::object();
    if (reply.empty() && request.is_object()) {
      waiting_.push_back(std::move(connection));
      continue;
    }
    send_answer(connection.number(), reply);
  }
}

void session_control::answer_late(const nlohmann::json& answer) {
  for (const open_file& one : waiting_) send_answer(one.number(), answer);
  waiting_.clear();
}

nlohmann::json already_recorded(pid_t program) {
  return {
      {"problem", fmt::format("process {} is already being recorded", program)},
      {"advice",
       fmt::format(
           "To write its data so far: tarn attach --dump {0}. To end a recording begun by tarn attach: tarn "
           "attach --stop {0}. A recording by tarn profile lasts until the program ends.",
           program)}};
}

session_answer ask_session(pid_t program, const nlohmann::json& request) {
  const connection made = connect_to_recorder_of(program);
  if (made.socket.number() < 0) {
    if (kill(program, 0) != 0 && errno == ESRCH) throw no_such_process(std::to_string(program));
    throw cli_error(exit_code::refused, fmt::format("process {} is not being recorded by this user", program),
                    fmt::format("Begin a recording: tarn attach {}", program));
  }
  send_json(made.socket.number(), request);
  received answer = receive_json(made.socket.number(), answer_ms);
  if (answer.what.is_null()) {
    throw cli_error(exit_code::refused,
                    fmt::format("the tarn process that records process {} does not answer", program),
                    "It may have just ended; check whether its file exists.");
  }
  if (answer.what.contains("problem"))
    throw cli_error(exit_code::refused, profiler::text_in(answer.what, "problem"),
                    profiler::text_in(answer.what, "advice"));
  return {std::move(answer.what), std::move(answer.file), made.peer};
}

}  // namespace tarn::cli
