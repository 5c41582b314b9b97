// SPDX-License-Identifier: MIT
#include "cli/compare/program_run.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/launch/child_process.hpp"
#include "cli/launch/child_subreaper.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

run_figures figures_of(double wall, const rusage& usage) {
  return {.wall_seconds = wall,
          .cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
          .peak_rss_bytes = static_cast<double>(usage.ru_maxrss) * 1024,
          .minor_faults = static_cast<double>(usage.ru_minflt),
          .major_faults = static_cast<double>(usage.ru_majflt)};
}

// A server without a handler for SIGTERM ends by the signal, which is no failure; one with a handler decides about its exit
// status.
bool is_told_end(int wait_status) { return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGTERM; }

// Waits until the server has been through the course, and has ended.
run_attempt follow_server(running_child& server, pid_t process, load_course& course,
                          const run_settings& settings, const held_signals& signals,
                          const std::function<void()>& each_second) {
  run_attempt result;
  const double begin = monotonic_seconds();
  double next_look = begin + 1;
  while (course.look(process)) {
    const double now = monotonic_seconds();
    if (server.has_ended()) {
      result.problem =
          fmt::format("the server ended before {}: {}", course.is_loading() ? "the load did" : "it was ready",
                      format_exit(server.wait_status()));
      return result;
    }
    result.timed_out = settings.timeout_seconds > 0 && now >= begin + settings.timeout_seconds;
    if (result.timed_out) {
      result.problem = course.waits_for();
      return result;
    }
    if (now >= next_look) {
      each_second();
      next_look = now + 1;
    }
    sleep_until_signal(signals, course.patience());
  }
  result.problem = course.problem();
  if (!result.problem.empty()) {
    // The load fails when the server does.
    if (server.has_ended() && !is_told_end(server.wait_status()))
      result.problem += "; the server: " + format_exit(server.wait_status());
    return result;
  }
  const double patience = settings.load->seconds_to_terminate;
  if (!wait_for_end(server, course.terminated_at() + patience, signals, each_second)) {
    result.problem = fmt::format("the server was still running {:.0f} s after SIGTERM", patience);
    return result;
  }
  if (!is_told_end(server.wait_status())) result.wait_status = server.wait_status();
  result.figures = figures_of(course.load_seconds(), server.usage());
  result.figures.cpu_seconds = course.server_seconds();
  return result;
}

// The load runs twice: before the first time is over, caches of the server and of the system are filled.
constexpr int loads_of_a_run = 2;

run_attempt run_server(child_request request, child_request shell, const run_settings& settings,
                       const held_signals& signals, const std::function<void()>& each_second) {
  load_course course(*settings.load, std::move(shell), loads_of_a_run, signals.before());
  run_attempt result;
  result.problem = course.obstacle();
  if (!result.problem.empty()) return result;
  request.before_exec = [&course](pid_t server) { course.count(server); };
  const pid_t process = start_child(request, signals.before());
  running_child server(process);
  return follow_server(server, process, course, settings, signals, each_second);
}

// How much of a failing program's stderr is shown.
constexpr off_t error_tail_bytes = 2000;
constexpr std::size_t error_tail_lines = 5;

int open_or_throw(const std::string& path, int flags) {
  const int number = open(path.c_str(), flags | O_CLOEXEC);
  if (number < 0) {
    throw cli_error(exit_code::refused, fmt::format("{}: cannot be read: {}", path, std::strerror(errno)),
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
                    fmt::format("{}: cannot be read from byte {}: {}", settings.input, settings.input_offset,
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
  const child_subreaper orphans;
  const double begin = monotonic_seconds();
  const pid_t process = start_child(request, signals.before());
  running_child child(process);
  const double deadline = settings.timeout_seconds > 0 ? begin + settings.timeout_seconds : 0;
  result.timed_out = !wait_for_end(child, deadline, signals, [&] {
    orphans.reap(process);
    each_second();
  });
  if (result.timed_out) return result;
  result.wait_status = child.wait_status();
  result.figures = figures_of(monotonic_seconds() - begin, child.usage());
  result.left = orphans.left_by(process);
  return result;
}

}  // namespace

run_attempt run_program(const contender& who, const program_target& target,
                        const std::vector<std::string>& words, const run_settings& settings,
                        const held_signals& signals, const std::function<void()>& each_second) {
  const open_file input(open_input(settings));
  // -1: that of this process
  const int shown = settings.shows_on_errors ? STDERR_FILENO : -1;
  const open_file output(settings.show_output ? -1 : open_output(settings));
  const open_file errors(settings.show_output ? -1 : open_nameless_file());
  child_request request;
  request.path = who.path.empty() ? target.path : who.path;
  request.arguments = who.words.empty() ? words : who.words;
  request.variables = environment_for(who);
  request.standard_input = input.number();
  request.standard_output = settings.show_output ? shown : output.number();
  request.standard_error = errors.number() >= 0 ? errors.number() : output.number();
  request.own_group = true;
  std::optional<tail_file> tails;
  if (settings.tails) tails.emplace(*settings.tails).join(request.variables);

  run_attempt result;
  if (settings.load) {
    const open_file nothing(open_or_throw("/dev/null", O_RDWR));
    child_request shell;
    shell.standard_input = nothing.number();
    shell.standard_output = settings.show_output ? shown : nothing.number();
    shell.standard_error = request.standard_error;
    result = run_server(std::move(request), std::move(shell), settings, signals, each_second);
  } else {
    result = run_alone(request, settings, signals, each_second);
  }
  if (tails) result.tails = tails->read();
  if (errors.number() >= 0) result.error_tail = read_tail(errors.number());
  return result;
}

}  // namespace tarn::cli
