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
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_output_bytes = std::size_t{64} << 20;
// Of standard error the end counts: before it may stand whatever the program writes.
constexpr std::size_t most_error_bytes = std::size_t{1} << 20;
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
  ssize_t size = 0;
  while ((size = read(descriptor, part.data(), part.size())) > 0) {
    text.append(part.data(), static_cast<std::size_t>(size));
    if (text.size() > 2 * most) text.erase(0, text.size() - most);
  }
  return size < 0 && (errno == EINTR || errno == EAGAIN);
}

}  // namespace

running_verb::running_verb(tool_call call, const sigset_t& mask) : call_(std::move(call)) {
  if (!call_.folder.empty() && !std::filesystem::is_directory(call_.folder))
    throw cli_error(exit_code::refused, fmt::format("directory: {} is not a folder", call_.folder));
  const open_file input = open_input(call_.input);
  pipe_pair output = make_pipe(), errors = make_pipe();
  // A recorded program writes to the verb's output, and that is nobody's.
  const bool is_of_program = std::string_view(call_.tool->verb) == "profile";
  const open_file nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  child_request request{.path = "/proc/self/exe", .arguments = {"tarn"}};
  request.arguments.insert(request.arguments.end(), call_.words.begin(), call_.words.end());
  request.variables = environment::current();
  request.standard_input = input.number();
  request.standard_output = is_of_program ? nowhere.number() : output.writer.number();
  request.standard_error = errors.writer.number();
  request.folder = call_.folder;
  request.own_group = true;
  request.ends_with_parent = true;
  process_ = start_child(request, mask);
  child_.emplace(process_);
  output_ = std::move(output.reader);
  errors_ = std::move(errors.reader);
  deadline_ = monotonic_seconds() + call_.limit_seconds;
}

void running_verb::add_streams(std::vector<pollfd>& streams) const {
  streams.push_back({output_.number(), POLLIN, 0});
  streams.push_back({errors_.number(), POLLIN, 0});
}

void running_verb::take(const std::vector<pollfd>& streams) {
  for (const pollfd& each : streams) {
    if (each.revents == 0) continue;
    if (each.fd == output_.number() && !drain(each.fd, outcome_.output, most_output_bytes)) output_ = {};
    if (each.fd == errors_.number() && !drain(each.fd, outcome_.errors, most_error_bytes)) errors_ = {};
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
  if (is_terminated_) {
    child_->kill_group();
    return true;
  }
  child_->terminate();
  is_terminated_ = true;
  deadline_ = monotonic_seconds() + seconds_to_write;
  return false;
}

void running_verb::end_within(double seconds) {
  child_->terminate();
  const double deadline = monotonic_seconds() + seconds;
  while (!child_->has_ended() && monotonic_seconds() < deadline) poll(nullptr, 0, 1);
}

verb_outcome running_verb::outcome() {
  if (output_.number() >= 0) drain(output_.number(), outcome_.output, most_output_bytes);
  if (errors_.number() >= 0) drain(errors_.number(), outcome_.errors, most_error_bytes);
  outcome_.wait_status = child_->wait_status();
  return std::move(outcome_);
}

}  // namespace tarn::cli
