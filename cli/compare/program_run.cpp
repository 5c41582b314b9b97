// SPDX-License-Identifier: MIT
#include "cli/compare/program_run.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/compare/server_run.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/running_child.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

// How much of a failing program's stderr is shown.
constexpr off_t error_tail_bytes = 2000;
constexpr std::size_t error_tail_lines = 5;

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

int open_or_throw(const std::string& path, int flags) {
  const int number = open(path.c_str(), flags | O_CLOEXEC);
  if (number < 0) {
    throw cli_error(exit_code::refused, fmt::format("cannot open {}: {}", path, std::strerror(errno)),
                    "Give another file as standard input, or none.");
  }
  return number;
}

int open_input(const run_settings& settings) {
  const int number = open_or_throw(settings.input, O_RDONLY);
  if (settings.input_offset != 0 && lseek(number, settings.input_offset, SEEK_SET) < 0) {
    const int error = errno;
    close(number);
    throw cli_error(exit_code::refused,
                    fmt::format("cannot read {} from byte {}: {}", settings.input, settings.input_offset,
                                std::strerror(error)),
                    "Give another file as standard input.");
  }
  return number;
}

// An unlinked temporary file; -1: it cannot be made.
int open_nameless_file() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  std::string path = (error ? std::string("/tmp") : folder.string()) + "/tarn-compare-XXXXXX";
  const int number = mkostemp(path.data(), O_CLOEXEC);
  if (number >= 0) unlink(path.c_str());
  return number;
}

int open_output(const run_settings& settings) {
  if (settings.show_output) return -1;
  const int file = settings.output_to_file ? open_nameless_file() : -1;
  return file >= 0 ? file : open_or_throw("/dev/null", O_WRONLY);
}

std::string read_tail(int file) {
  const off_t size = lseek(file, 0, SEEK_END);
  if (size <= 0) return {};
  const off_t begin = std::max<off_t>(0, size - error_tail_bytes);
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t lines = 1;
  for (std::size_t position = text.size(); position > 0; --position) {
    if (text[position - 1] == '\n' && lines++ == error_tail_lines) return text.substr(position);
  }
  return text;
}

run_attempt run_alone(const child_request& request, const run_settings& settings, const held_signals& signals,
                      const std::function<void()>& each_second) {
  run_attempt result;
  const double begin = monotonic_seconds();
  running_child child(start_child(request, signals.before()));
  const double deadline = settings.timeout_seconds > 0 ? begin + settings.timeout_seconds : 0;
  result.timed_out = !wait_for_end(child, deadline, signals, each_second);
  if (result.timed_out) return result;
  result.wait_status = child.wait_status();
  result.figures = figures_of(monotonic_seconds() - begin, child.usage());
  return result;
}

}  // namespace

run_attempt run_program(const contender& who, const program_target& target,
                        const std::vector<std::string>& words, const run_settings& settings,
                        const std::function<void()>& each_second) {
  const descriptor input(open_input(settings));
  const descriptor output(open_output(settings));
  const descriptor errors(settings.show_output ? -1 : open_nameless_file());
  child_request request;
  request.path = target.path;
  request.arguments = words;
  request.variables = environment_for(who);
  request.standard_input = input.get();
  request.standard_output = output.get();
  request.standard_error = errors.get() >= 0 ? errors.get() : output.get();
  request.own_group = true;

  const held_signals signals{SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  run_attempt result;
  if (settings.load) {
    const descriptor nothing(open_or_throw("/dev/null", O_RDWR));
    child_request load;
    load.variables = environment::current();
    load.standard_input = nothing.get();
    load.standard_output = settings.show_output ? -1 : nothing.get();
    load.standard_error = request.standard_error;
    result = run_server(request, std::move(load), settings, signals, each_second);
  } else {
    result = run_alone(request, settings, signals, each_second);
  }
  if (errors.get() >= 0) result.error_tail = read_tail(errors.get());
  return result;
}

}  // namespace tarn::cli
