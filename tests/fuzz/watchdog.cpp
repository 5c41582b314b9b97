// SPDX-License-Identifier: MIT
#include "watchdog.hpp"

#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "model.hpp"

namespace tarn::fuzz {

namespace {

using clock = std::chrono::steady_clock;

constexpr double patience_seconds = 20;
constexpr int stack_signal = SIGUSR2;

std::atomic<std::int64_t> began_ms{0};  // 0: no input runs; relaxed: the watchdog may see it late
std::atomic<std::int64_t> processor_ms_then{0};

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock::now().time_since_epoch()).count();
}

std::int64_t processor_ms() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
         (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

// A signal handler. start() has called backtrace before, which loads a library at its first call.
void print_stack(int /*signal*/) {
  const int before = errno;
  std::array<void*, 64> frames;
  dprintf(STDERR_FILENO, "watchdog: process %d thread %ld is at\n", getpid(), syscall(SYS_gettid));
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), static_cast<int>(frames.size())),
                       STDERR_FILENO);
  errno = before;
}

// Prints /proc/self/task/THREAD/FILE.
void print_file(const char* thread, const char* file) {
  std::array<char, 96> path;
  std::snprintf(path.data(), path.size(), "/proc/self/task/%s/%s", thread, file);
  std::array<char, 512> text{};
  const int from = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (from < 0) return;
  if (read(from, text.data(), text.size() - 1) > 0)
    dprintf(STDERR_FILENO, "watchdog: %s %s: %s\n", thread, file, text.data());
  close(from);
}

void print_all_threads() {
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    for (const char* file : {"stat", "wchan", "syscall", "schedstat"}) print_file(entry->d_name, file);
    const long thread = std::strtol(entry->d_name, nullptr, 10);
    syscall(SYS_tgkill, getpid(), thread, stack_signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // one stack after the other
  }
  closedir(folder);
}

void watch() {
  std::int64_t told = 0;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::int64_t began = began_ms.load(std::memory_order_relaxed);
    if (began == 0 || began == told || now_ms() - began < static_cast<std::int64_t>(patience_seconds * 1000))
      continue;
    told = began;
    double load = 0;
    getloadavg(&load, 1);
    dprintf(
        STDERR_FILENO,
        "watchdog: an input runs for %.1f s, of which the process had a processor for %.1f s; load average %.1f\n",
        static_cast<double>(now_ms() - began) / 1000,
        static_cast<double>(processor_ms() - processor_ms_then.load(std::memory_order_relaxed)) / 1000, load);
    print_all_threads();
  }
}

void set_handler(int signal) {
  struct sigaction action = {};
  action.sa_handler = print_stack;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

void start() {
  std::array<void*, 4> frames;
  backtrace(frames.data(), static_cast<int>(frames.size()));
  set_handler(stack_signal);
  std::thread(watch).detach();
}

}  // namespace

watched_run::watched_run() {
  static const bool started = (start(), true);
  static_cast<void>(started);
  processor_ms_then.store(processor_ms(), std::memory_order_relaxed);
  began_ms.store(now_ms(), std::memory_order_relaxed);
}

watched_run::~watched_run() { began_ms.store(0, std::memory_order_relaxed); }

void run_in_child(const std::function<void()>& what) {
  const pid_t child = fork();
  if (child == 0) {
    set_handler(SIGALRM);
    alarm(static_cast<unsigned>(patience_seconds));
    what();
    _exit(0);
  }
  int status = 0;
  // libFuzzer's timer signal interrupts waitpid.
  while (waitpid(child, &status, 0) != child) require(errno == EINTR, "fork or waitpid fails");
  require(status == 0, "a forked child has failed");
}

}  // namespace tarn::fuzz
