// SPDX-License-Identifier: MIT
#include "cli/launch/child_process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cli/launch/scratch_file.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

// How often `each_second` is called. Each call takes some microseconds of this process, not of the measured one.
constexpr double seconds_between_looks = 1;
// For killed processes to end: they give their memory back first.
constexpr double seconds_to_die = 0.5;

struct pipe_ends {
  open_file reader;
  open_file writer;

  pipe_ends() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw resource_error("cannot make a pipe", errno);
    reader = open_file(ends[0]);
    writer = open_file(ends[1]);
  }
};

bool redirect(int from, int to) {
  // dup2 onto itself would leave close-on-exec set.
  if (from == to) return fcntl(to, F_SETFD, 0) == 0;
  return from < 0 || dup2(from, to) >= 0;
}

// A zombie holds nothing, and how soon it is reaped depends on the system.
bool lives(pid_t group) {
  if (kill(-group, 0) != 0) return false;
  const std::vector<std::uint32_t> processes = profiler::numbers_in("/proc");
  return std::any_of(processes.begin(), processes.end(), [group](std::uint32_t process) {
    if (getpgid(static_cast<pid_t>(process)) != group) return false;
    const auto found = profiler::read_process(process);
    return found && !found->has_ended();
  });
}

// Runs in the child: waits until the other end is closed.
void wait_behind(pipe_ends& gate) {
  gate.writer = {};
  char nothing = 0;
  while (read(gate.reader.number(), &nothing, 1) < 0 && errno == EINTR) {
  }
}

int wait_status_of(const siginfo_t& end) {
  if (end.si_code == CLD_EXITED) return W_EXITCODE(end.si_status, 0);
  return end.si_status | (end.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

// Runs in the child: redirects, then calls exec. Reports errno through `error_pipe`, which a successful exec
// closes.
[[noreturn]] void become(const child_request& request, char* const* arguments, char* const* variables,
                         const sigset_t& mask, int error_pipe) {
  bool ready = !request.own_group || setpgid(0, 0) == 0;
  ready = ready && (!request.ends_with_parent || prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
  ready = ready && (request.folder.empty() || chdir(request.folder.c_str()) == 0);
  ready = ready && redirect(request.standard_input, STDIN_FILENO) &&
          redirect(request.standard_output, STDOUT_FILENO) && redirect(request.standard_error, STDERR_FILENO);
  if (ready) {
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execve(request.path.c_str(), arguments, variables);
  }
  const int error = errno;
  const ssize_t written = write(error_pipe, &error, sizeof error);
  _exit(written == sizeof error ? exit_code::not_executable : exit_code::refused);
}

// False: it has not ended by then. Otherwise it can be reaped at once.
bool ends_before(pid_t child, double deadline) {
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    if (monotonic_seconds() > deadline) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

// Runs in the guard: nothing but SIGKILL ends it before the group. It keeps no descriptor open for others.
[[noreturn]] void guard(pid_t group, double seconds, int life) {
  sigset_t all = {};
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  if (setpgid(0, group) != 0 || dup2(life, 0) != 0) _exit(0);
  syscall(SYS_close_range, 1U, ~0U, 0U);
  char nothing = 0;
  while (read(0, &nothing, 1) < 0 && errno == EINTR) {
  }
  const double deadline = monotonic_seconds() + seconds;
  while (kill(group, 0) == 0 && monotonic_seconds() < deadline) poll(nullptr, 0, 20);
  kill(-group, SIGKILL);
  _exit(0);
}

// Appends what can be read; false at the end of the stream.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t size = read(descriptor, buffer.data(), buffer.size());
  if (size > 0) text.append(buffer.data(), static_cast<std::size_t>(size));
  return size > 0 || (size < 0 && (errno == EINTR || errno == EAGAIN));
}

}  // namespace

held_signals::held_signals(const std::vector<int>& numbers) {
  sigemptyset(&held_);
  for (const int number : numbers) sigaddset(&held_, number);
  sigprocmask(SIG_BLOCK, &held_, &before_);
  // If SIGCHLD were ignored, which is inherited, the kernel would discard the child's exit status.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &standard, &child_action_before_);
}

held_signals::~held_signals() {
  sigaction(SIGCHLD, &child_action_before_, nullptr);
  if (!is_kept_) sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int held_signals::take(double seconds) const {
  const timespec wait = to_timespec(std::max(0.0, seconds));
  return std::max(0, sigtimedwait(&held_, nullptr, &wait));
}

int reap(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

double least_peak_rss() {
  const held_signals signals{};
  const pid_t copy = fork();
  if (copy == 0) _exit(0);
  rusage usage = {};
  while (copy > 0 && wait4(copy, nullptr, 0, &usage) < 0 && errno == EINTR) {
  }
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

pid_t start_child(const child_request& request, const sigset_t& mask) {
  environment variables = request.variables;
  const std::vector<char*> variable_pointers = variables.pointers();
  std::vector<char*> arguments;
  arguments.reserve(request.arguments.size() + 1);
  for (const std::string& argument : request.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pipe_ends errors;
  std::optional<pipe_ends> gate;
  if (request.before_exec) gate.emplace();
  const pid_t child = fork();
  if (child < 0) {
    throw resource_error("cannot start another process", errno);
  }
  if (child == 0 && gate) wait_behind(*gate);
  if (child == 0) become(request, arguments.data(), variable_pointers.data(), mask, errors.writer.number());
  errors.writer = {};
  if (gate) request.before_exec(child);
  gate.reset();
  int error = 0;
  ssize_t size = 0;
  while ((size = read(errors.reader.number(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (size == 0) return child;
  reap(child);
  const int code = error == ENOENT ? exit_code::not_found : exit_code::not_executable;
  throw cli_error(code, fmt::format("cannot start {}: {}", request.path, std::strerror(error)));
}

captured_output run_captured(child_request request, double timeout_seconds) {
  pipe_ends output;
  pipe_ends errors;
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  request.standard_input = nothing;
  request.standard_output = output.writer.number();
  request.standard_error = errors.writer.number();
  request.own_group = true;
  const held_signals signals{};
  captured_output result;
  const pid_t child = start_child(request, signals.before());
  if (nothing >= 0) close(nothing);
  output.writer = {};
  errors.writer = {};
  const double deadline = monotonic_seconds() + timeout_seconds;
  std::array<pollfd, 2> streams{pollfd{output.reader.number(), POLLIN, 0},
                                pollfd{errors.reader.number(), POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const double left = deadline - monotonic_seconds();
    if (left <= 0) break;
    if (poll(streams.data(), streams.size(), static_cast<int>(left * 1000) + 1) <= 0) continue;
    if (streams[0].revents != 0 && !drain(streams[0].fd, result.output)) streams[0].fd = -1;
    if (streams[1].revents != 0 && !drain(streams[1].fd, result.errors)) streams[1].fd = -1;
  }
  // It may also go on after it has closed its outputs.
  result.timed_out = streams[0].fd >= 0 || streams[1].fd >= 0 || !ends_before(child, deadline);
  if (result.timed_out) kill(-child, SIGKILL);
  result.wait_status = reap(child);
  return result;
}

double monotonic_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

timespec to_timespec(double seconds) {
  const double whole = std::floor(seconds);
  timespec time = {};
  time.tv_sec = static_cast<time_t>(whole);
  time.tv_nsec = static_cast<long>((seconds - whole) * 1e9);
  return time;
}

void end_like(int wait_status) {
  std::fflush(nullptr);
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    // The program has already dumped its core if it was to; a core dump of this process would overwrite it.
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(number, SIG_DFL);
    sigset_t only = {};
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    raise(number);
    _exit(128 + number);
  }
  std::exit(WEXITSTATUS(wait_status));
}

bool running_child::has_ended() {
  if (ended_) return true;
  siginfo_t end = {};
  // The function of libc does not tell the usage.
  if (syscall(SYS_waitid, P_PID, process_, &end, WEXITED | WNOHANG | WNOWAIT, &usage_) != 0 ||
      end.si_pid == 0)
    return false;
  wait_status_ = wait_status_of(end);
  ended_ = true;
  return true;
}

void running_child::terminate() const {
  if (ended_) return;
  kill(process_, SIGTERM);
  kill(process_, SIGCONT);
}

void running_child::terminate_group() const {
  if (!ended_) kill(-process_, SIGTERM);
}

void running_child::kill_group() {
  if (reaped_) return;
  kill(-process_, SIGKILL);
  while (wait4(process_, &wait_status_, 0, &usage_) < 0 && errno == EINTR) {
  }
  ended_ = reaped_ = true;
  // What the child has left behind holds its port until it is gone.
  const double deadline = monotonic_seconds() + seconds_to_die;
  while (lives(process_) && monotonic_seconds() < deadline) poll(nullptr, 0, 1);
}

group_guard::group_guard(pid_t group, double seconds) {
  pipe_ends life;
  const pid_t guarding = fork();
  if (guarding < 0) throw resource_error("cannot start another process", errno);
  if (guarding == 0) {
    life.writer = {};
    guard(group, seconds, life.reader.number());
  }
  life_ = fcntl(life.writer.number(), F_DUPFD_CLOEXEC, 0);
}

group_guard::~group_guard() {
  if (life_ >= 0) close(life_);
}

void sleep_until_signal(const held_signals& signals, double seconds) {
  const int signal = signals.take(seconds);
  if (signal != 0 && signal != SIGCHLD) throw interrupted{signal};
}

bool wait_for_end(running_child& child, double deadline, const held_signals& signals,
                  const std::function<void()>& each_second) {
  double next_look = monotonic_seconds() + seconds_between_looks;
  while (!child.has_ended()) {
    const double now = monotonic_seconds();
    if (deadline > 0 && now >= deadline) return false;
    if (now >= next_look) {
      each_second();
      next_look = now + seconds_between_looks;
    }
    sleep_until_signal(signals, std::min(next_look, deadline > 0 ? deadline : next_look) - now);
  }
  return true;
}

}  // namespace tarn::cli
