// SPDX-License-Identifier: MIT
#include "cli/control/control_client.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/printable.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr const char* thread_name = "tarn-control";
constexpr double patience_seconds = 60;
constexpr std::size_t longest_heading = 64;
constexpr std::size_t longest_answer = std::size_t{256} << 20;

class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) close(number_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The control thread's folder in /proc; "" if there is none.
std::string control_task(pid_t process) {
  std::error_code error;
  for (fs::directory_iterator task(fmt::format("/proc/{}/task", process), error), end; !error && task != end;
       task.increment(error)) {
    if (first_line(task->path().string() + "/comm") == thread_name) return task->path().string();
  }
  return "";
}

// The numbers of the sockets that the thread holds. `denied`: they may not be read.
std::vector<std::string> sockets_of(const std::string& task, bool& denied) {
  std::vector<std::string> numbers;
  std::error_code error;
  fs::directory_iterator each(task + "/fd", error);
  denied = bool(error);
  for (const fs::directory_iterator end; !error && each != end; each.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(each->path(), gone).string();
    if (target.starts_with("socket:[")) numbers.push_back(target.substr(8, target.size() - 9));
  }
  return numbers;
}

[[noreturn]] void refuse(pid_t process, const std::string& problem, const std::string& advice) {
  throw cli_error(exit_code::refused, fmt::format("process {}: {}", process, problem), advice);
}

// A thread that a signal or a debugger has stopped answers only once it goes on.
void require_running(pid_t process) {
  const std::string stat = first_line(control_task(process) + "/stat");
  const std::size_t name_end = stat.rfind(')');  // the name may hold spaces and parentheses
  const char state = name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : '?';
  if (state == 'T')
    refuse(process, "it is stopped, so it cannot answer",
           fmt::format("Let it go on: kill -CONT {}", process));
  if (state == 't')
    refuse(process, "a debugger or tracer has stopped it, so it cannot answer", "Let it go on there.");
}

// Of the listening socket among `numbers`: "…: RefCount Protocol Flags Type St Inode Path".
std::string path_of_listener(pid_t process, const std::vector<std::string>& numbers) {
  std::ifstream list(fmt::format("/proc/{}/net/unix", process));
  std::string line;
  while (std::getline(list, line)) {
    std::istringstream fields(line);
    std::string word;
    std::string flags;
    std::string number;
    fields >> word >> word >> word >> flags >> word >> word >> number;
    constexpr const char* accepts_connections = "00010000";
    if (flags != accepts_connections || std::find(numbers.begin(), numbers.end(), number) == numbers.end())
      continue;
    std::string path;
    std::getline(fields >> std::ws, path);
    return path;
  }
  return "";
}

void set_patience(int socket) {
  const timeval time{static_cast<time_t>(patience_seconds), 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

// Through a descriptor of the folder: the name of a socket has room for 107 bytes only.
void connect_to(int socket, pid_t process, const std::string& path) {
  const std::string folder = fmt::format("/proc/{}/root{}", process, fs::path(path).parent_path().string());
  const descriptor opened(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0)
    refuse(process,
           fmt::format("its control socket's folder {} cannot be entered: {}", path, std::strerror(errno)),
           "Run tarn as the process's user or as root.");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name =
      fmt::format("/proc/self/fd/{}/{}", opened.get(), fs::path(path).filename().string());
  if (name.size() >= sizeof address.sun_path) refuse(process, "its control socket has too long a name", "");
  std::copy(name.begin(), name.end(), address.sun_path);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    refuse(process, fmt::format("its control socket {} cannot be reached: {}", path, std::strerror(errno)),
           errno == EACCES
               ? "Run tarn as the process's user or as root."
               : "Try again; if the process has changed its root folder since its start, it has no door.");
  }
}

// Another process may have put its socket at that name.
void require_peer(int socket, pid_t process) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid != process)
    refuse(process, fmt::format("process {} answers in its place", peer.pid), "Ask that process, or end it.");
}

std::string receive_all(int socket, pid_t process) {
  std::string text;
  std::vector<char> part(65536);
  const double begin = monotonic_seconds();
  while (text.size() <= longest_answer && monotonic_seconds() - begin < patience_seconds) {
    const ssize_t bytes = recv(socket, part.data(), part.size(), 0);
    if (bytes == 0) return text;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) break;
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  refuse(process, "it does not answer in time", "It may be very busy, frozen, or in a debugger; try again.");
}

}  // namespace

std::optional<std::string> find_control_socket(pid_t process, std::string& reason) {
  const std::string folder = fmt::format("/proc/{}", process);
  if (!fs::exists(folder)) {
    reason = "it has ended, or does not exist";
    return std::nullopt;
  }
  const std::string task = control_task(process);
  if (task.empty()) {
    reason = "it has no control socket";
    return std::nullopt;
  }
  bool denied = false;
  const std::vector<std::string> numbers = sockets_of(task, denied);
  if (denied) {
    reason = "it belongs to another user, or does not let itself be looked at";
    return std::nullopt;
  }
  std::string path = path_of_listener(process, numbers);
  if (path.empty() || path[0] != '/') {
    reason = "its control socket is not open yet";
    return std::nullopt;
  }
  return path;
}

std::string ask_process(pid_t process, const std::string& command) {
  std::string reason;
  const auto path = find_control_socket(process, reason);
  if (!path) {
    refuse(process, reason,
           reason.starts_with("it belongs") ? "Run tarn as the process's user or as root."
           : reason.starts_with("it has ended")
               ? "List the processes: ps -e"
               : "Start it with TARN_CONTROL=on and tarn's malloc: TARN_CONTROL=on tarn "
                 "run -- PROGRAM. Of any process: tarn attach, tarn top.");
  }
  require_running(process);
  const descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) throw resource_error("cannot make a socket", errno);
  set_patience(socket.get());
  connect_to(socket.get(), process, *path);
  require_peer(socket.get(), process);
  const std::string request = "tarn/1 " + command + "\n";
  // Whoever may not ask has an answer before the question.
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE)
    refuse(process, fmt::format("it takes no request: {}", std::strerror(errno)), "Try again.");
  const std::string text = receive_all(socket.get(), process);
  const std::size_t end = text.substr(0, longest_heading).find('\n');
  std::istringstream heading(text.substr(0, end == std::string::npos ? 0 : end));
  std::string protocol;
  std::string outcome;
  std::size_t length = 0;
  heading >> protocol >> outcome >> length;
  if (!heading || protocol != "tarn/1")
    refuse(process, "it answers in another protocol", "Use the tarn command of the process's version.");
  if (text.size() - end - 1 != length)
    refuse(process, "its answer ends early", "It may have ended, or closed its control socket; try again.");
  std::string body = text.substr(end + 1);
  if (outcome != "ok") refuse(process, profiler::printable(body), "See what it takes: tarn set PID");
  return body;
}

std::string name_of_process(pid_t process) {
  return profiler::printable(first_line(fmt::format("/proc/{}/comm", process)));
}

std::vector<pid_t> controlled_processes(const std::string& name) {
  std::vector<pid_t> found;
  std::error_code error;
  for (fs::directory_iterator each("/proc", error), end; !error && each != end; each.increment(error)) {
    const auto process = process_id(each->path().filename().string());
    if (!process || first_line(each->path().string() + "/comm") != name) continue;
    std::string reason;
    if (find_control_socket(*process, reason)) found.push_back(*process);
  }
  std::sort(found.begin(), found.end());
  return found;
}

pid_t process_of(const std::string& word) {
  if (const auto process = process_id(word)) return *process;
  throw cli_error(exit_code::usage, fmt::format("'{}' is not a process id", word),
                  "Find the id by the program's name: pgrep NAME");
}

}  // namespace tarn::cli
