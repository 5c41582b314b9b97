// SPDX-License-Identifier: MIT
#include "cli/control/control_client.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/peer.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/printable.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr const char* thread_name = "tarn-control";
constexpr std::size_t longest_heading = 64;
constexpr std::size_t longest_refusal = 4096;
constexpr double pause_seconds = 0.02;  // before another try to connect, while the process's queue is full
constexpr std::size_t most_processes = 256;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string task_folder(pid_t process) { return fmt::format("/proc/{}/task", process); }

// The control thread's number; "" if there is none.
std::string control_task(pid_t process) {
  std::error_code error;
  for (fs::directory_iterator task(task_folder(process), error), end; !error && task != end;
       task.increment(error)) {
    if (first_line(task->path().string() + "/comm") == thread_name) return task->path().filename().string();
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
  const std::string stat = first_line(task_folder(process) + "/" + control_task(process) + "/stat");
  const std::size_t name_end = stat.rfind(')');  // the name may hold spaces and parentheses
  const char state = name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : '?';
  if (state == 'T')
    refuse(process, "it is stopped, so it cannot answer",
           fmt::format("Let it go on: kill -CONT {}", process));
  if (state == 't')
    refuse(process, "a debugger or tracer has stopped it, so it cannot answer", "Let it go on there.");
}

// Of listening sockets among `numbers`: "…: RefCount Protocol Flags Type St Inode Path". Whoever binds a name with a line
// break in it adds lines to this list, so there may be several: the one behind which the process is counts.
std::vector<std::string> paths_of_listeners(pid_t process, const std::vector<std::string>& numbers) {
  std::ifstream list(fmt::format("/proc/{}/net/unix", process));
  std::string line;
  std::vector<std::string> paths;
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
    if (path.starts_with('/')) paths.push_back(path);
  }
  return paths;
}

[[noreturn]] void refuse_path(pid_t process, const std::string& path, int error) {
  refuse(process, fmt::format("its control socket {} cannot be reached: {}", path, std::strerror(error)),
         error == EACCES
             ? "Run tarn as the process's user or as root."
             : "Try again; if the process has changed its root folder since its start, it has no door.");
}

// Where the process sees the folder: a link leads within its root, not to a place of this process's.
int open_folder(pid_t process, const std::string& path) {
  const open_file root(open(fmt::format("/proc/{}/root", process).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  open_how how = {};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const std::string folder = fs::path(path).parent_path().string();
  return static_cast<int>(syscall(SYS_openat2, root.number(), folder.c_str(), &how, sizeof how));
}

// A question to a process and its answer, in steps that do not wait.
class conversation {
 public:
  conversation(pid_t process, const std::string& command, const answer_limits& limits)
      : process_(process),
        limits_(limits),
        request_("tarn/1 " + command + "\n"),
        ends_(monotonic_seconds() + limits.seconds) {
    std::string reason;
    const auto door = find_control_door(process, reason);
    if (!door) refuse_door(reason);
    require_running(process);
    door_ = *door;
    connect_or_wait();
  }

  [[nodiscard]] int socket() const { return socket_.number(); }
  [[nodiscard]] bool is_connected() const { return connected_; }
  [[nodiscard]] double ends() const { return ends_; }

  // Takes what has arrived. True: the answer is complete. Throws cli_error.
  bool step() {
    if (monotonic_seconds() >= ends_)
      refuse(process_, "it does not answer in time",
             "It may be very busy, frozen, or in a debugger; try again.");
    if (!connected_ && !connect_or_wait()) return false;
    return read();
  }
  std::string take() { return std::move(text_); }

 private:
  [[noreturn]] void refuse_door(const std::string& reason) const {
    if (reason.starts_with("it has ended")) throw no_such_process(std::to_string(process_));
    refuse(process_, reason,
           reason.starts_with("it belongs")
               ? "Run tarn as the process's user or as root."
               : "Start it with TARN_CONTROL=on and tarn's malloc: TARN_CONTROL=on tarn "
                 "run -- PROGRAM. Of any process: tarn attach, tarn top.");
  }

  // False: its queue is full.
  bool connect_or_wait() {
    for (const std::string& path : door_.paths) {
      open_file made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (made.number() < 0) throw resource_error("cannot make a socket", errno);
      const int error = connect_to(made.number(), path);
      if (error == EAGAIN) return false;
      if (error != 0) {
        failed_ = path;
        error_ = error;
        continue;
      }
      const auto who = peer_of(made.number());
      if (!who || !is_process(*who, process_, door_.task.c_str())) {
        other_ = who ? who->process : -1;
        continue;
      }
      socket_ = std::move(made);
      connected_ = true;
      // Whoever may not ask has an answer before the question.
      if (send(socket_.number(), request_.data(), request_.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE)
        refuse(process_, fmt::format("it takes no request: {}", std::strerror(errno)), "Try again.");
      return true;
    }
    if (other_ == 0) refuse_path(process_, failed_, error_);
    refuse(process_, fmt::format("process {} answers in its place", other_), "Ask that process, or end it.");
  }

  // An errno value. Through a descriptor of the folder: the name of a socket has room for 107 bytes only.
  int connect_to(int socket, const std::string& path) const {
    const open_file opened(open_folder(process_, path));
    if (opened.number() < 0) return errno;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string name =
        fmt::format("/proc/self/fd/{}/{}", opened.number(), fs::path(path).filename().string());
    if (name.size() >= sizeof address.sun_path)
      refuse(process_, "its control socket has too long a name", "");
    std::copy(name.begin(), name.end(), address.sun_path);
    return connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  }

  bool read() {
    if (!has_heading_) {
      char part[longest_heading];
      const ssize_t bytes = recv(socket_.number(), part, sizeof part - heading_.size(), 0);
      if (!has_come(bytes)) return false;
      heading_.append(part, static_cast<std::size_t>(bytes));
      if (!take_heading()) return false;
    }
    while (used_ < text_.size()) {
      const ssize_t bytes = recv(socket_.number(), text_.data() + used_, text_.size() - used_, 0);
      if (!has_come(bytes)) return false;
      used_ += static_cast<std::size_t>(bytes);
    }
    if (is_refusal_)
      refuse(process_, profiler::printable(text_),
             fmt::format("See what it takes: tarn control {}", process_));
    return true;
  }

  bool has_come(ssize_t bytes) const {
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (bytes <= 0)
      refuse(process_, "its answer ends early",
             "It may have ended, or closed its control socket; try again.");
    return true;
  }

  bool take_heading() {
    const std::size_t end = heading_.find('\n');
    if (end == std::string::npos && heading_.size() < longest_heading) return false;
    std::istringstream words(heading_.substr(0, end == std::string::npos ? 0 : end));
    std::string protocol;
    std::string outcome;
    std::size_t length = 0;
    words >> protocol >> outcome >> length;
    if (!words || protocol != "tarn/1" || (outcome != "ok" && outcome != "error"))
      refuse(process_, "it answers in another protocol", "Use the tarn command of the process's version.");
    is_refusal_ = outcome == "error";
    const std::size_t most = is_refusal_ ? longest_refusal : limits_.bytes;
    if (length > most)
      refuse(process_, fmt::format("its answer is longer than {} bytes", most),
             "Use the tarn command of the process's version.");
    text_ = heading_.substr(end + 1, length);
    used_ = text_.size();
    text_.resize(length);
    has_heading_ = true;
    return true;
  }

  pid_t process_;
  answer_limits limits_;
  std::string request_;
  double ends_;
  control_door door_;
  open_file socket_;
  bool connected_ = false;
  pid_t other_ = 0;
  std::string failed_;  // a path that leads nowhere, and why
  int error_ = 0;
  std::string heading_;
  bool has_heading_ = false;
  bool is_refusal_ = false;
  std::string text_;  // as long as the heading says
  std::size_t used_ = 0;
};

using conversations = std::vector<std::unique_ptr<conversation>>;

// Waits until one of them has something to read, or a try to connect is due.
void wait_for(const conversations& all) {
  std::vector<pollfd> polled;
  double until = monotonic_seconds() + 1;
  for (const auto& each : all) {
    if (each == nullptr) continue;
    if (each->is_connected()) polled.push_back({each->socket(), POLLIN, 0});
    until = std::min(until, each->is_connected() ? each->ends() : monotonic_seconds() + pause_seconds);
  }
  const double left = std::max(0.0, until - monotonic_seconds());
  poll(polled.data(), polled.size(), static_cast<int>(left * 1000) + 1);
}

}  // namespace

std::optional<control_door> find_control_door(pid_t process, std::string& reason) {
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
  const std::vector<std::string> numbers = sockets_of(task_folder(process) + "/" + task, denied);
  if (denied) {
    reason = "it belongs to another user, or does not let itself be looked at";
    return std::nullopt;
  }
  control_door found{task, paths_of_listeners(process, numbers)};
  if (found.paths.empty()) {
    reason = "its control socket is not open yet";
    return std::nullopt;
  }
  return found;
}

std::string ask_process(pid_t process, const std::string& command, const answer_limits& limits) {
  conversations one;
  one.push_back(std::make_unique<conversation>(process, command, limits));
  while (!one.front()->step()) wait_for(one);
  return one.front()->take();
}

std::vector<std::optional<std::string>> ask_processes(const std::vector<pid_t>& processes,
                                                      const std::string& command,
                                                      const answer_limits& limits) {
  std::vector<std::optional<std::string>> answers(processes.size());
  conversations open(processes.size());
  const auto attempt = [&open](std::size_t at, const auto& work) {
    try {
      work();
    } catch (const cli_error&) {
      open[at] = nullptr;
    }
  };
  for (std::size_t at = 0; at < processes.size(); ++at)
    attempt(at, [&] { open[at] = std::make_unique<conversation>(processes[at], command, limits); });
  const auto is_open = [](const auto& each) { return each != nullptr; };
  while (std::any_of(open.begin(), open.end(), is_open)) {
    for (std::size_t at = 0; at < open.size(); ++at) {
      if (open[at] == nullptr) continue;
      attempt(at, [&] {
        if (!open[at]->step()) return;
        answers[at] = open[at]->take();
        open[at] = nullptr;
      });
    }
    if (std::any_of(open.begin(), open.end(), is_open)) wait_for(open);
  }
  return answers;
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
    if (find_control_door(*process, reason)) found.push_back(*process);
  }
  std::sort(found.begin(), found.end());
  if (found.size() > most_processes) found.resize(most_processes);
  return found;
}

pid_t process_of(const std::string& word) {
  if (const auto process = process_id(word)) return *process;
  throw cli_error(exit_code::usage, fmt::format("'{}' is not a process id", word),
                  "Find the id by the program's name: pgrep NAME");
}

}  // namespace tarn::cli
