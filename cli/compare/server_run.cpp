// SPDX-License-Identifier: MIT
#include "cli/compare/server_run.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "cli/launch/running_child.hpp"
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

}  // namespace

run_figures figures_of(double wall, const rusage& usage) {
  run_figures figures;
  figures.wall_seconds = wall;
  figures.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  figures.peak_rss_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
  figures.minor_faults = static_cast<double>(usage.ru_minflt);
  figures.major_faults = static_cast<double>(usage.ru_majflt);
  return figures;
}

run_attempt run_server(const child_request& server, child_request load, const run_settings& settings,
                       const held_signals& signals, const std::function<void()>& each_second) {
  return server_run(std::move(load), settings, signals, each_second).run(server);
}

}  // namespace tarn::cli
