// SPDX-License-Identifier: MIT
#include "cli/agent/running_verb.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/show/cli_error.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_output_bytes = std::size_t{64} << 20;
// Of standard error the end counts.
constexpr std::size_t most_error_bytes = std::size_t{1} << 20;
// A program may write as fast as this is read, and others wait. What a pipe holds is less.
constexpr std::size_t most_bytes_at_once = std::size_t{1} << 20;
constexpr double seconds_to_obey = 5;    // for a recorded program after SIGTERM
constexpr double seconds_to_write = 30;  // for a verb after SIGTERM: names are looked up, and files written

struct pipe_pair {
  open_file reader;
  open_file writer;
};

pipe_pair make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw resource_error("cannot make a pipe", errno);
  pipe_pair made{open_file(ends[0]), open_file(ends[1])};
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return made;
}

// Not of a pipe: it would wait for a writer.
open_file open_input(const std::string& path) {
  open_file file(open(path.empty() ? "/dev/null" : path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0)
    throw cli_error(exit_code::refused, fmt::format("stdin: {}: {}", path, std::strerror(errno)));
  if (!path.empty() && !S_ISREG(status.st_mode))
    throw cli_error(exit_code::refused, fmt::format("stdin: {} is not a regular file", path));
  return file;
}

// What can be read now; keeps the last `most` bytes. False: the stream has ended.
bool drain(int descriptor, std::string& text, std::size_t most) {
  std::array<char, 65536> part;
  for (std::size_t taken = 0; taken < most_bytes_at_once;) {
    const ssize_t size = read(descriptor, part.data(), part.size());
    if (size <= 0) return size < 0 && (errno == EINTR || errno == EAGAIN);
    taken += static_cast<std::size_t>(size);
    text.append(part.data(), static_cast<std::size_t>(size));
    if (text.size() > 2 * most) text.erase(0, text.size() - most);
  }
  return true;
}

}  // namespace

running_verb::running_verb(tool_call call, const sigset_t& mask) : call_(std::move(call)) {
  if (!call_.folder.empty() && !std::filesystem::is_directory(call_.folder))
    throw cli_error(exit_code::refused, fmt::format("directory: {} is not a folder", call_.folder));
  const open_file input = open_input(call_.input);
  pipe_pair output = make_pipe(), errors = make_pipe(), program_errors = make_pipe();
  // A recorded program writes to the verb's output, and that is nobody's.
  const open_file nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  child_request request{.path = "/proc/self/exe", .arguments = {"tarn"}};
  request.arguments.insert(request.arguments.end(), call_.words.begin(), call_.words.end());
  request.variables = environment::current();
  if (is_recording()) {
    request.variables.set(program_errors_variable, std::to_string(program_errors.writer.number()));
    fcntl(program_errors.writer.number(), F_SETFD, 0);
  }
  request.standard_input = input.number();
  request.standard_output = is_recording() ? nowhere.number() : output.writer.number();
  request.standard_error = errors.writer.number();
  request.folder = call_.folder;
  request.own_group = true;
  request.ends_with_parent = true;
  process_ = start_child(request, mask);
  child_.emplace(process_);
  guard_.emplace(process_, seconds_to_end);
  output_ = std::move(output.reader);
  errors_ = std::move(errors.reader);
  program_errors_ = std::move(program_errors.reader);
  deadline_ = monotonic_seconds() + call_.limit_seconds;
}

void running_verb::add_streams(std::vector<pollfd>& streams) const {
  streams.push_back({output_.number(), POLLIN, 0});
  streams.push_back({errors_.number(), POLLIN, 0});
  streams.push_back({program_errors_.number(), POLLIN, 0});
}

void running_verb::take(const std::vector<pollfd>& streams) {
  for (const pollfd& each : streams) {
    if (each.revents == 0) continue;
    if (each.fd == output_.number() && !drain(each.fd, outcome_.output, most_output_bytes)) output_ = {};
    if (each.fd == errors_.number() && !drain(each.fd, outcome_.errors, most_error_bytes)) errors_ = {};
    if (each.fd == program_errors_.number() && !drain(each.fd, outcome_.program_errors, most_error_bytes))
      program_errors_ = {};
  }
}

int running_verb::milliseconds_to_wait() const {
  return static_cast<int>(1000 * std::clamp(deadline_ - monotonic_seconds(), 0.0, 1e6)) + 1;
}

bool running_verb::is_over() {
  if (child_->has_ended()) return true;
  if (monotonic_seconds() < deadline_) return false;
  if (outcome_.cut_short.empty())
    outcome_.cut_short = fmt::format("ended at its limit of {:.3g} s", call_.limit_seconds);
  if (!is_terminated_) {
    child_->terminate();
    is_terminated_ = true;
    deadline_ = monotonic_seconds() + (is_recording() ? seconds_to_obey : seconds_to_write);
    return false;
  }
  if (is_recording() && !std::exchange(has_killed_, true)) {
    kill_program();
    deadline_ = monotonic_seconds() + seconds_to_write;
    return false;
  }
  child_->kill_group();
  return true;
}

// The verb has no child but the program, as it does not stop along with it, and none while it writes.
void running_verb::kill_program() {
  const std::vector<std::uint32_t> programs = profiler::children_of(static_cast<std::uint32_t>(process_));
  for (const std::uint32_t program : programs) kill(static_cast<pid_t>(program), SIGKILL);
  if (!programs.empty()) outcome_.cut_short += "; the program went on after SIGTERM, and was killed";
}

void running_verb::end_within(double seconds) {
  child_->terminate();
  const double deadline = monotonic_seconds() + seconds;
  while (!child_->has_ended() && monotonic_seconds() < deadline) poll(nullptr, 0, 1);
}

verb_outcome running_verb::outcome() {
  if (output_.number() >= 0) drain(output_.number(), outcome_.output, most_output_bytes);
  if (errors_.number() >= 0) drain(errors_.number(), outcome_.errors, most_error_bytes);
  if (program_errors_.number() >= 0)
    drain(program_errors_.number(), outcome_.program_errors, most_error_bytes);
  outcome_.wait_status = child_->wait_status();
  return std::move(outcome_);
}

}  // namespace tarn::cli
