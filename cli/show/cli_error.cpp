// SPDX-License-Identifier: MIT
#include "cli/show/cli_error.hpp"

#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

const char* advice_for(int error) {
  switch (error) {
    case EMFILE: return "Raise the limit on open files: ulimit -n 1024";
    case ENFILE: return "Too many files are open on this system: end programs, or raise sysctl fs.file-max.";
    case EAGAIN:
      return "Raise the limit on processes (ulimit -u, the control group's pids.max), or end some.";
    case ENOMEM:
      return "Raise the limit on memory (ulimit -v, the control group's memory.max), or end programs.";
    default: return "What works on this system: tarn doctor";
  }
}

// While one lives, the calling thread gets an error where the system would else send it SIGPIPE, which is taken away at the end.
class held_pipe_signal {
 public:
  held_pipe_signal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~held_pipe_signal() {
    constexpr timespec now{};
    if (sigismember(&before_, SIGPIPE) == 1) return;  // it is the caller's
    sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  held_pipe_signal(const held_pipe_signal&) = delete;
  held_pipe_signal& operator=(const held_pipe_signal&) = delete;

 private:
  sigset_t pipe_ = {};
  sigset_t before_ = {};
};

std::atomic<int> bounds{0};
std::atomic<bool> was_full{false};

// False: the rest is to be dropped.
bool has_room() {
  constexpr int most_wait_ms = 100;
  pollfd asked{STDERR_FILENO, POLLOUT, 0};
  const bool is_bounded = bounds.load(std::memory_order_relaxed) > 0;
  const int ready = poll(&asked, 1,
                         !is_bounded                                ? -1
                         : was_full.load(std::memory_order_relaxed) ? 0
                                                                    : most_wait_ms);
  if (ready < 0) return errno == EINTR;
  was_full.store(ready == 0, std::memory_order_relaxed);
  return ready > 0;
}

// As write. Another process may have taken the room since: with the flag (pipes: Linux 6.4) the call does not wait then. Without
// it, a part of this size waits only in that case.
ssize_t write_part(std::string_view text) {
  struct stat file = {};
  iovec part{const_cast<char*>(text.data()), std::min<std::size_t>(text.size(), PIPE_BUF)};
  if (fstat(STDERR_FILENO, &file) == 0 && (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode))) {
    const ssize_t size = pwritev2(STDERR_FILENO, &part, 1, -1, RWF_NOWAIT);
    if (size >= 0 || errno == EAGAIN || errno == EINTR || errno == EPIPE) return size;
  }
  return write(STDERR_FILENO, part.iov_base, part.iov_len);
}

}  // namespace

resource_error::resource_error(const std::string& problem, int error)
    : cli_error(exit_code::refused, fmt::format("{}: {}", problem, std::strerror(error)), advice_for(error)) {
}

cli_error no_such_process(const std::string& process) {
  return {exit_code::refused, fmt::format("process {} has ended, or does not exist", process),
          "List the processes: ps -e"};
}

cli_error as_cli_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return resource_error("no memory for this", ENOMEM);
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return {exit_code::refused, fmt::format("{}: {}", file->path1().string(), file->code().message()),
            "Check the path and the rights to it."};
  }
  const std::string text = error.what();
  const std::size_t split = text.rfind("; ");
  if (split == std::string::npos) return {exit_code::refused, text};
  std::string advice = text.substr(split + 2);
  // A sentence, unless it names a command or an option to type.
  if (!advice.starts_with("tarn "))
    advice[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(advice[0])));
  if (advice.find(": ") == std::string::npos) advice += '.';
  return {exit_code::refused, text.substr(0, split), advice};
}

bounded_messages::bounded_messages() { bounds.fetch_add(1, std::memory_order_relaxed); }
bounded_messages::~bounded_messages() { bounds.fetch_sub(1, std::memory_order_relaxed); }

void write_message(std::string_view text) noexcept {
  const held_pipe_signal held;
  while (!text.empty() && has_room()) {
    const ssize_t size = write_part(text);
    if (size > 0) {
      text.remove_prefix(static_cast<std::size_t>(size));
    } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
      return;
    }
  }
}

void print_error(const cli_error& error, bool json) {
  if (json) {
    const nlohmann::json object = {{"error",
                                    {{"problem", profiler::printable(error.what())},
                                     {"advice", profiler::printable(error.advice())},
                                     {"exit_code", error.code()}}}};
    print_message("{}\n", json_text(object));
    return;
  }
  const std::size_t width = terminal_width(STDERR_FILENO);
  const std::string problem = fmt::format("tarn: {}", profiler::printable(error.what()));
  print_message("{}\n", fold(problem, width));
  if (!error.advice().empty())
    print_message("{}\n", fold(fmt::format("      {}", profiler::printable(error.advice())), width));
}

void print_note(const std::string& text) {
  const std::string note = fmt::format("tarn: {}", profiler::printable(text));
  print_message("{}\n", fold(note, terminal_width(STDERR_FILENO)));
}

}  // namespace tarn::cli
