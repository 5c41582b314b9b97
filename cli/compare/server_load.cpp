// SPDX-License-Identifier: MIT
#include "cli/compare/server_load.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

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

// Counts the processor time of a thread, and of all that it starts from now on, however they end. -1: that is not allowed.
int open_task_clock(pid_t process) {
  perf_event_attr what = {};
  what.type = PERF_TYPE_SOFTWARE;
  what.size = sizeof what;
  what.config = PERF_COUNT_SW_TASK_CLOCK;
  what.inherit = 1;
  what.exclude_kernel = 1;  // without it ordinary users may not; this clock counts all time nevertheless
  what.exclude_hv = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &what, process, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

// Of children that nobody waits for, the system keeps no time.
bool ignores_children(std::uint32_t process) {
  const std::string mask(profiler::status_line(profiler::proc_text(process, "status"), "SigIgn"));
  if ((std::strtoull(mask.c_str(), nullptr, 16) >> (SIGCHLD - 1) & 1) != 0) return true;
  const std::vector<std::uint32_t> children = profiler::children_of(process);
  return std::any_of(children.begin(), children.end(), ignores_children);
}

// The clock of a process is finer than the ticks in /proc; of descendants that have ended only ticks are left.
double processor_seconds(std::uint32_t process) {
  const auto found = profiler::read_process(process);
  if (!found) return 0;
  double seconds = 1e-9 * (found->user_ns + found->system_ns);
  clockid_t clock = 0;
  timespec time = {};
  if (clock_getcpuclockid(static_cast<pid_t>(process), &clock) == 0 && clock_gettime(clock, &time) == 0)
    seconds = static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  seconds += 1e-9 * (found->ended_children.user_ns + found->ended_children.system_ns);
  for (const std::uint32_t child : profiler::children_of(process)) seconds += processor_seconds(child);
  return seconds;
}

}  // namespace

CLI::Option* add_load_options(command& app, server_load& load) {
  CLI::Option* with = app.option("--load COMMAND", load.command,
                                 "The program is a server; run this load (a shell command) against it");
  CLI::Option* port = app.option("--ready-port PORT", load.ready_port,
                                 "The server is ready when this TCP port answers", whole_number(1, 65535))
                          ->needs(with);
  app.option("--ready-command COMMAND", load.ready_command, "The server is ready when this command succeeds")
      ->needs(with)
      ->excludes(port);
  return with;
}

void require_complete(const server_load& load) {
  if (load.ready_port != 0 || !load.ready_command.empty()) return;
  throw cli_error(exit_code::usage, "--load also needs --ready-port or --ready-command",
                  "Give the TCP port of the server: --ready-port PORT; or a command that succeeds once the "
                  "server is ready: --ready-command COMMAND");
}

load_course::load_course(const server_load& load, child_request shell, int loads, const sigset_t& mask)
    : settings_(load), shell_(std::move(shell)), mask_(mask), loads_left_(loads) {
  shell_.path = "/bin/sh";
  shell_.variables = environment::current();
  shell_.own_group = true;
}

std::string load_course::obstacle() const {
  if (settings_.ready_port == 0 || !port_answers(settings_.ready_port)) return {};
  return fmt::format("another process already answers at port {} before the server is started",
                     settings_.ready_port);
}

load_course::~load_course() {
  if (clock_ >= 0) close(clock_);
}

void load_course::count(pid_t server) {
  counts_ = true;
  clock_ = open_task_clock(server);
}

// The clock misses nothing, but stops where the server gets other rights as it executes; /proc misses children that nobody
// waits for.
double load_course::seconds_of(pid_t server) const {
  if (!counts_) return 0;
  std::uint64_t ns = 0;
  if (clock_ >= 0 && read(clock_, &ns, sizeof ns) != sizeof ns) ns = 0;
  return std::max(1e-9 * static_cast<double>(ns), processor_seconds(static_cast<std::uint32_t>(server)));
}

std::string load_course::waits_for() const {
  const double seconds = monotonic_seconds() - (is_loading() ? load_began_ : ready_began_);
  if (is_loading()) return fmt::format("the load was still running after {:.3g} s", seconds);
  if (settings_.ready_port > 0)
    return fmt::format("the server was not ready at port {} after {:.3g} s", settings_.ready_port, seconds);
  return fmt::format("the server was not ready after {:.3g} s: '{}' did not succeed", seconds,
                     settings_.ready_command);
}

bool load_course::look(pid_t server) {
  if (terminated_at_ > 0) return false;
  if (is_loading()) {
    if (!load_->has_ended()) return true;
    end_load(server);
    if (!problem_.empty() || loads_left_ == 0) return terminate(server);
    start_load(server);
    return true;
  }
  if (ready_began_ == 0) ready_began_ = monotonic_seconds();
  if (is_ready()) {
    start_load(server);
  } else if (monotonic_seconds() > ready_began_ + settings_.ready_seconds) {
    problem_ = waits_for();
    return terminate(server);
  }
  return true;
}

bool load_course::is_ready() {
  if (settings_.ready_port > 0) return port_answers(settings_.ready_port);
  if (!question_) question_.emplace(start_shell(settings_.ready_command));
  if (!question_->has_ended()) return false;
  const bool yes = question_->wait_status() == 0;
  question_.reset();
  return yes;
}

void load_course::start_load(pid_t server) {
  server_before_ = seconds_of(server);
  load_began_ = monotonic_seconds();
  load_.emplace(start_shell(settings_.command));
}

void load_course::end_load(pid_t server) {
  load_seconds_ = monotonic_seconds() - load_began_;
  server_seconds_ = std::max(0.0, seconds_of(server) - server_before_);
  --loads_left_;
  load_->kill_group();  // what it left in the background would disturb the next one
  if (load_->wait_status() != 0) problem_ = "the load failed: " + format_exit(load_->wait_status());
  if (problem_.empty() && counts_) problem_ = doubt_about_count(server);
}

std::string load_course::doubt_about_count(pid_t server) const {
  if (clock_ < 0 && ignores_children(static_cast<std::uint32_t>(server)))
    return "the server ignores the end of its children (SIGCHLD), so what they compute is not known to the system; it is "
           "counted where performance events are allowed (kernel.perf_event_paranoid of 2 or less)";
  if (server_seconds_ > 0) return {};
  return fmt::format(
      "the server took no CPU time during the load, which ended after {}: does the load run in the background, or reach "
      "another server?",
      profiler::say_seconds(load_seconds_));
}

bool load_course::terminate(pid_t server) {
  kill(server, SIGTERM);
  terminated_at_ = monotonic_seconds();
  return false;
}

pid_t load_course::start_shell(const std::string& command) {
  shell_.arguments = {"sh", "-c", command};
  return start_child(shell_, mask_);
}

}  // namespace tarn::cli
