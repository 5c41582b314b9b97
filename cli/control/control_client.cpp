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
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>

#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/peer.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/proc/proc_status.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr const char* thread_name = "tarn-control";
constexpr std::size_t longest_heading = 64;
constexpr std::size_t longest_refusal = 4096;
constexpr int pause_ms = 20;  // before another try to connect
constexpr double longest_opening_seconds = 3;
constexpr std::size_t longest_part = std::size_t{64} << 10;
constexpr std::size_t most_processes = 256;

std::string task_folder(pid_t process) { return fmt::format("/proc/{}/task", process); }

// The control thread's number; "" if there is none.
std::string control_task(pid_t process) {
  for (const auto& [task, name] : profiler::thread_names(static_cast<std::uint32_t>(process))) {
    if (name == thread_name) return std::to_string(task);
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
void require_running(pid_t process, const std::string& task) {
  const std::string file = fmt::format("task/{}/stat", task);
  const auto found =
      profiler::parse_process(profiler::proc_text(static_cast<std::uint32_t>(process), file.c_str()), 1, 1);
  if (found && found->state == 'T')
    refuse(process, "it is stopped, so it cannot answer",
           fmt::format("Let it go on: kill -CONT {}", process));
  if (found && found->state == 't')
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

// The process began just now: its control thread may not have opened the socket yet.
bool may_open_soon(pid_t process) {
  const auto found = profiler::read_process(static_cast<std::uint32_t>(process));
  timespec since_boot = {};
  if (!found || found->has_ended() || clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0) return false;
  const double began = static_cast<double>(found->start_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(since_boot.tv_sec) - began < longest_opening_seconds;
}

// A question to a process and its answer, before `ends_`.
class conversation {
 public:
  conversation(pid_t process, const answer_limits& limits)
      : process_(process), limits_(limits), ends_(monotonic_seconds() + limits.seconds) {}

  std::string ask(const std::string& command) {
    std::string reason;
    auto door = find_control_door(process_, reason);
    while (!door && may_open_soon(process_)) {
      poll(nullptr, 0, pause_ms);
      door = find_control_door(process_, reason);
    }
    if (!door) refuse_door(reason);
    require_running(process_, door->task);
    while (!is_connected(*door)) poll(nullptr, 0, pause_ms);
    const std::string request = "tarn/1 " + command + "\n";
    // Whoever may not ask has an answer before the question.
    if (send(socket_.number(), request.data(), request.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE)
      refuse(process_, fmt::format("it takes no request: {}", std::strerror(errno)), "Try again.");
    return answer();
  }

 private:
  [[noreturn]] void refuse_door(const std::string& reason) const {
    if (reason.starts_with("it has ended")) throw no_such_process(std::to_string(process_));
    refuse(process_, reason,
           reason.starts_with("it belongs")
               ? "Run tarn as the process's user or as root."
               : "Start it with TARN_CONTROL=on and tarn's malloc: TARN_CONTROL=on tarn "
                 "run -- PROGRAM. Of any process: tarn attach, tarn top.");
  }

  // The milliseconds that are left.
  int require_time() const {
    const double left = ends_ - monotonic_seconds();
    if (left <= 0)
      refuse(process_, "it does not answer in time",
             "It may be very busy, frozen, or in a debugger; try again.");
    return static_cast<int>(left * 1000) + 1;
  }

  // False: its queue is full.
  bool is_connected(const control_door& door) {
    require_time();
    std::string failed;
    int failure = 0;
    std::optional<peer> other;  // who answered in its place
    for (const std::string& path : door.paths) {
      socket_ = open_file(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (socket_.number() < 0) throw resource_error("cannot make a socket", errno);
      const int error = connect_to(path);
      if (error == EAGAIN) return false;
      if (error != 0) {
        failed = path;
        failure = error;
        continue;
      }
      const auto who = peer_of(socket_.number());
      if (who && is_process(*who, process_, door.task.c_str())) return true;
      other = who.value_or(peer{});
    }
    if (!other) refuse_path(process_, failed, failure);
    if (other->process <= 0)
      refuse(process_, "a process of another container answers in its place", "End that process.");
    refuse(process_, fmt::format("process {} answers in its place", other->process),
           "Ask that process, or end it.");
  }

  // An errno value. Through a descriptor of the folder: the name of a socket has room for 107 bytes only.
  int connect_to(const std::string& path) const {
    const open_file opened(open_folder(process_, path));
    if (opened.number() < 0) return errno;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string name =
        fmt::format("/proc/self/fd/{}/{}", opened.number(), fs::path(path).filename().string());
    if (name.size() >= sizeof address.sun_path)
      refuse(process_, "its control socket has too long a name", "");
    std::copy(name.begin(), name.end(), address.sun_path);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    return connect(socket_.number(), to, sizeof address) == 0 ? 0 : errno;
  }

  // What has come, `most` bytes of it at most.
  std::string receive(std::size_t most) {
    std::string part(std::min(most, longest_part), '\0');
    pollfd input = {socket_.number(), POLLIN, 0};
    for (;;) {
      poll(&input, 1, require_time());
      const ssize_t bytes = recv(socket_.number(), part.data(), part.size(), 0);
      if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (bytes <= 0)
        refuse(process_, "its answer ends early",
               "It may have ended, or closed its control socket; try again.");
      part.resize(static_cast<std::size_t>(bytes));
      return part;
    }
  }

  std::string answer() {
    std::string text;
    while (text.find('\n') == std::string::npos && text.size() < longest_heading)
      text += receive(longest_heading - text.size());
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::istringstream words(text.substr(0, end));
    std::string protocol;
    std::string outcome;
    std::size_t length = 0;
    words >> protocol >> outcome >> length;
    if (!words || end == text.size() || protocol != "tarn/1" || (outcome != "ok" && outcome != "error"))
      refuse(process_, "it answers in another protocol", "Use the tarn command of the process's version.");
    const std::size_t most = outcome == "error" ? longest_refusal : limits_.bytes;
    if (length > most)
      refuse(process_, fmt::format("its answer is longer than {} bytes", most),
             "Use the tarn command of the process's version.");
    text.erase(0, end + 1);
    while (text.size() < length) text += receive(length - text.size());
    text.resize(length);
    if (outcome == "error")
      refuse(process_, profiler::printable(text),
             fmt::format("See what it takes: tarn control {}", process_));
    return text;
  }

  pid_t process_;
  answer_limits limits_;
  double ends_;
  open_file socket_;
};

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
  return conversation(process, limits).ask(command);
}

std::vector<std::optional<std::string>> ask_processes(const std::vector<pid_t>& processes,
                                                      const std::string& command,
                                                      const answer_limits& limits) {
  std::vector<std::future<std::string>> asked;
  for (const pid_t each : processes) asked.push_back(std::async(ask_process, each, command, limits));
  std::vector<std::optional<std::string>> answers(processes.size());
  for (std::size_t at = 0; at < asked.size(); ++at) {
    try {
      answers[at] = asked[at].get();
    } catch (const cli_error&) {  // it has no part in the result
    }
  }
  return answers;
}

std::string name_of_process(pid_t process) {
  const auto found = profiler::read_process(static_cast<std::uint32_t>(process));
  return found ? found->name : "";
}

std::vector<pid_t> controlled_processes(const std::string& name) {
  std::vector<pid_t> found;
  for (const std::uint32_t id : profiler::numbers_in("/proc")) {
    const auto process = static_cast<pid_t>(id);
    std::string reason;
    if (name_of_process(process) == name && find_control_door(process, reason)) found.push_back(process);
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
