// SPDX-License-Identifier: MIT
// bench_launch: runs one command with one preloaded library and reports its cost as one JSON object.
// Owner: the benchmark runner (bench/runner/launch.py), which starts one of these per timed run.
// Why a separate program: Linux includes in a process's peak RSS what it had before its exec, so a child of a large
// Python process never reports less than Python's own size. This program is linked statically and stays below 1 MiB.
// Order: (1) a helper process touches TOUCH_MIB and releases them, so that the system's free memory is in the same
// state for every contender; (2) the command runs, with its standard output in OUTPUT; (3) when it ends, its memory
// map is read to see whether it has really used the library.
// Invariant: the command is not stopped between exec and exit. Tracing is used only for the exit event (and for
// signals, which are passed on), and not at all without a library.
// At its limit, or when bench_launch is told to end, the command is killed with all processes of its group.
// Output, on descriptor 1: {"status":0,"signal":0,"wall":…,"user":…,"sys":…,"rss":BYTES,"minor":N,"major":N,
//   "preload":"used"|"missing"|"unknown"}. Exit status 0 if the command could be started, whatever it did.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace {

struct request {
  size_t touch_mib;
  unsigned limit_seconds;  // 0: none
  const char* preload;     // null: nothing
  const char* output;
  const char* errors;
  char** command;
};

enum class preload_state { unknown, used, missing };

struct outcome {
  int wait_status = 0;
  double wall = 0;
  rusage usage = {};
  preload_state preload = preload_state::unknown;
};

[[noreturn]] void fail(const char* what, const char* detail) {
  fprintf(stderr, "bench_launch: %s: %s\n", what, detail);
  exit(2);
}

request parse(int count, char** words) {
  if (count < 7) {
    fprintf(stderr, "usage: bench_launch TOUCH_MIB LIMIT_SECONDS LIBRARY OUTPUT ERRORS PROGRAM ARG...\n");
    exit(2);
  }
  return {static_cast<size_t>(atol(words[1])),
          static_cast<unsigned>(atol(words[2])),
          words[3][0] != '\0' ? words[3] : nullptr,
          words[4],
          words[5],
          words + 6};
}

// In a process of its own, so that the system has the memory back before the command starts.
void touch_and_release(size_t mib) {
  if (mib == 0) return;
  const pid_t helper = fork();
  if (helper < 0) fail("fork", strerror(errno));
  if (helper == 0) {
    const size_t length = mib << 20U;
    void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(1);
    for (size_t at = 0; at < length; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
    _exit(0);
  }
  int status = 0;
  while (waitpid(helper, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) fail("touch", "the memory to touch before the run cannot be allocated");
}

void redirect(const char* path, int descriptor) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 || dup2(file, descriptor) < 0) fail(path, strerror(errno));
  close(file);
}

[[noreturn]] void become(const request& asked, int report_descriptor) {
  close(report_descriptor);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  redirect(asked.output, STDOUT_FILENO);
  redirect(asked.errors, STDERR_FILENO);
  if (asked.preload != nullptr) {
    setenv("LD_PRELOAD", asked.preload, 1);
    // Where tracing is forbidden the command runs anyway, and the report says "unknown".
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  } else {
    unsetenv("LD_PRELOAD");
  }
  execvp(asked.command[0], asked.command);
  fprintf(stderr, "bench_launch: %s: %s\n", asked.command[0], strerror(errno));
  _exit(127);
}

preload_state read_map(pid_t process, const char* preload) {
  if (preload == nullptr) return preload_state::used;
  char real[PATH_MAX];
  if (realpath(preload, real) == nullptr) return preload_state::missing;
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/maps", static_cast<int>(process));
  FILE* map = fopen(name, "re");
  if (map == nullptr) return preload_state::unknown;
  preload_state state = preload_state::missing;
  char line[PATH_MAX + 256];
  while (fgets(line, sizeof line, map) != nullptr) {
    if (strstr(line, real) != nullptr) state = preload_state::used;
  }
  fclose(map);
  return state;
}

double now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

pid_t running = 0;

void stop_running(int) {
  if (running > 0) kill(-running, SIGKILL);
}

// Handles the stops of the traced command until it has ended.
void follow(pid_t process, const request& asked, outcome& result) {
  bool started = false;
  for (;;) {
    int status = 0;
    if (wait4(process, &status, __WALL, &result.usage) < 0) {
      if (errno == EINTR) continue;
      fail("wait4", strerror(errno));
    }
    if (!WIFSTOPPED(status)) {
      result.wait_status = status;
      return;
    }
    long signal_to_pass = WSTOPSIG(status);
    if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXIT << 8))) {
      result.preload = read_map(process, asked.preload);
      signal_to_pass = 0;
    } else if (!started && signal_to_pass == SIGTRAP) {  // the stop at exec
      ptrace(PTRACE_SETOPTIONS, process, nullptr, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL);
      started = true;
      signal_to_pass = 0;
    }
    ptrace(PTRACE_CONT, process, nullptr, signal_to_pass);
  }
}

outcome measure(const request& asked, int report_descriptor) {
  outcome result;
  if (asked.preload == nullptr) result.preload = preload_state::used;
  const double start = now();
  const pid_t process = fork();
  if (process < 0) fail("fork", strerror(errno));
  if (process == 0) become(asked, report_descriptor);
  setpgid(process, process);  // here too: whichever of the two comes first
  running = process;
  struct sigaction action = {};
  action.sa_handler = stop_running;
  sigaction(SIGALRM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  alarm(asked.limit_seconds);
  follow(process, asked, result);
  result.wall = now() - start;
  return result;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

void print(const outcome& result, int report_descriptor) {
  static const char* const names[] = {"unknown", "used", "missing"};
  dprintf(report_descriptor,
          "{\"status\":%d,\"signal\":%d,\"wall\":%.6f,\"user\":%.6f,\"sys\":%.6f,\"rss\":%ld,\"minor\":%ld,"
          "\"major\":%ld,\"preload\":\"%s\"}\n",
          WIFEXITED(result.wait_status) ? WEXITSTATUS(result.wait_status) : 0,
          WIFSIGNALED(result.wait_status) ? WTERMSIG(result.wait_status) : 0, result.wall,
          seconds(result.usage.ru_utime), seconds(result.usage.ru_stime), result.usage.ru_maxrss * 1024,
          result.usage.ru_minflt, result.usage.ru_majflt, names[static_cast<int>(result.preload)]);
}

}  // namespace

int main(int count, char** words) {
  const request asked = parse(count, words);
  const int report_descriptor = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (report_descriptor < 0) fail("standard output", strerror(errno));
  touch_and_release(asked.touch_mib);
  print(measure(asked, report_descriptor), report_descriptor);
  return 0;
}
