// SPDX-License-Identifier: MIT
#include "cli/compare/program_run.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/launch/child_process.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr double seconds_between_tries = 0.01;

bool connects(const sockaddr* address, socklen_t size) {
  const int file = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return false;
  const bool connected = connect(file, address, size) == 0;
  close(file);
  return connected;
}

bool port_answers(int port) {
  sockaddr_in old_address = {};
  old_address.sin_family = AF_INET;
  old_address.sin_port = htons(static_cast<std::uint16_t>(port));
  old_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = old_address.sin_port;
  address.sin6_addr = in6addr_loopback;
  return connects(reinterpret_cast<const sockaddr*>(&old_address), sizeof old_address) ||
         connects(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

run_figures figures_of(double wall, const rusage& usage) {
  run_figures figures;
  figures.wall_seconds = wall;
  figures.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  figures.peak_rss_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
  figures.minor_faults = static_cast<double>(usage.ru_minflt);
  figures.major_faults = static_cast<double>(usage.ru_majflt);
  return figures;
}

// One run of a server under a load: starts it, waits until it is ready, runs the load, and ends the server. The figures are
// those of the server; the wall time is that of the load. `load`: the variables and descriptors of the load.
class server_run {
 public:
  server_run(child_request load, const run_settings& settings, const held_signals& signals,
             const std::function<void()>& each_second)
      : load_(*settings.load),
        load_request_(std::move(load)),
        signals_(signals),
        each_second_(each_second),
        deadline_(settings.timeout_seconds > 0 ? monotonic_seconds() + settings.timeout_seconds : 0) {
    load_request_.path = "/bin/sh";
    load_request_.own_group = true;
  }

  run_attempt run(const child_request& request) {
    if (load_.ready_port > 0 && port_answers(load_.ready_port)) {
      return failed(fmt::format("another process already answers at port {} before the server is started",
                                load_.ready_port));
    }
    running_child server(start_child(request, signals_.before()));
    if (auto problem = wait_until_ready(server); !problem.empty()) return failed(std::move(problem));
    const double begin = monotonic_seconds();
    running_child load(start_shell(load_.command));
    run_attempt result =
        load_.until_load_exits ? finish_after_load(server, load) : finish_after_server(server, load);
    result.figures = figures_of(end_ - begin, server.usage());
    return result;
  }

 private:
  static run_attempt failed(std::string problem) {
    run_attempt result;
    result.problem = std::move(problem);
    return result;
  }

  pid_t start_shell(const std::string& command) {
    load_request_.arguments = {"sh", "-c", command};
    return start_child(load_request_, signals_.before());
  }

  static std::string describe_end(const running_child& server) {
    return fmt::format("the server ended before the load did: {}", format_exit(server.wait_status()));
  }

  bool is_ready() {
    if (load_.ready_port > 0) return port_answers(load_.ready_port);
    running_child question(start_shell(load_.ready_command));
    return wait_for_end(question, monotonic_seconds() + load_.ready_seconds, signals_, [] {}) &&
           question.wait_status() == 0;
  }

  // Why the server is not ready; empty: it is.
  std::string wait_until_ready(running_child& server) {
    const double end = monotonic_seconds() + load_.ready_seconds;
    while (!is_ready()) {
      if (server.has_ended())
        return fmt::format("the server ended before it was ready: {}", format_exit(server.wait_status()));
      if (monotonic_seconds() > end)
        return fmt::format("the server was not ready after {:.0f} s", load_.ready_seconds);
      sleep_until_signal(signals_, seconds_between_tries);
    }
    return {};
  }

  run_attempt finish_after_load(running_child& server, running_child& load) {
    run_attempt result;
    while (!load.has_ended() && !server.has_ended() && !is_late()) wait_a_moment(load);
    end_ = monotonic_seconds();
    if (server.has_ended()) return failed(describe_end(server));
    if (!load.has_ended()) return late();
    if (load.wait_status() != 0) return failed("the load failed: " + format_exit(load.wait_status()));
    server.terminate();
    if (!wait_for_end(server, end_ + load_.seconds_to_terminate, signals_, each_second_)) {
      return failed(
          fmt::format("the server was still running {:.0f} s after SIGTERM", load_.seconds_to_terminate));
    }
    // A server without a handler for SIGTERM ends by the signal, which is no failure; one with a handler decides
    // about its exit status.
    const int status = server.wait_status();
    if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)) result.wait_status = status;
    return result;
  }

  run_attempt finish_after_server(running_child& server, running_child& load) {
    while (!server.has_ended() && !is_late()) wait_a_moment(server);
    end_ = monotonic_seconds();
    if (!server.has_ended()) return late();
    if (!wait_for_end(load, end_ + load_.seconds_to_terminate, signals_, each_second_)) {
      return failed(fmt::format("the load was still running {:.0f} s after the end of the server",
                                load_.seconds_to_terminate));
    }
    run_attempt result;
    result.wait_status = server.wait_status();
    return result;
  }

  bool is_late() const { return deadline_ > 0 && monotonic_seconds() >= deadline_; }
  static run_attempt late() {
    run_attempt result;
    result.timed_out = true;
    return result;
  }

  void wait_a_moment(running_child& child) {
    const double until = monotonic_seconds() + 1;
    if (!wait_for_end(child, deadline_ > 0 ? std::min(deadline_, until) : until, signals_, each_second_))
      each_second_();
  }

  const server_load& load_;
  child_request load_request_;
  const held_signals& signals_;
  const std::function<void()>& each_second_;
  double deadline_;
  double end_ = 0;
};

// How much of a failing program's stderr is shown.
constexpr off_t error_tail_bytes = 2000;
constexpr std::size_t error_tail_lines = 5;

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
  const open_file input(open_input(settings));
  const open_file output(open_output(settings));
  const open_file errors(settings.show_output ? -1 : open_nameless_file());
  child_request request;
  request.path = target.path;
  request.arguments = words;
  request.variables = environment_for(who);
  request.standard_input = input.number();
  request.standard_output = output.number();
  request.standard_error = errors.number() >= 0 ? errors.number() : output.number();
  request.own_group = true;

  const held_signals signals{SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  run_attempt result;
  if (settings.load) {
    const open_file nothing(open_or_throw("/dev/null", O_RDWR));
    child_request load;
    load.variables = environment::current();
    load.standard_input = nothing.number();
    load.standard_output = settings.show_output ? -1 : nothing.number();
    load.standard_error = request.standard_error;
    result = server_run(std::move(load), settings, signals, each_second).run(request);
  } else {
    result = run_alone(request, settings, signals, each_second);
  }
  if (errors.number() >= 0) result.error_tail = read_tail(errors.number());
  return result;
}

}  // namespace tarn::cli
