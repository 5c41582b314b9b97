// SPDX-License-Identifier: MIT
// Some libc calls (prctl, _Fork, …) first end tarn's own threads. A program makes such calls where tarn can neither
// wait for a thread nor start one: prctl in a destructor, which runs on the recyclers' thread, and _Fork in a signal
// handler that interrupts pthread_create.
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <new>
#include <string>
#include <thread>

#include "program.hpp"
#include "tarn/recycler.hpp"

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

std::atomic<int> ended{0};
std::atomic<std::int64_t> longest_ms{0};

struct caller {
  ~caller() {
    const auto start = clock_type::now();
    prctl(PR_SET_KEEPCAPS, 0);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - start);
    if (took.count() > longest_ms) longest_ms = took.count();
    ++ended;
  }
};

void check_destructors() {
  tarn::recycler<caller> callers({.cycle = std::chrono::milliseconds(100), .name = "callers"});
  {
    const auto one = callers.get();
    const auto two = callers.get();
  }
  for (int i = 0; i < 500 && ended < 2; ++i) std::this_thread::sleep_for(10ms);
  TARN_CHECK(ended >= 2, "%d of 2 objects ended", ended.load());
  TARN_CHECK(longest_ms < 500, "prctl in a destructor took %lld ms", static_cast<long long>(longest_ms));
}

constexpr int wanted_forks = 2000;
// The longest time between two forks before the child counts as hanging. The timer fires every millisecond; on a slow
// machine forks are tens of milliseconds apart.
constexpr auto longest_pause = 20s;
std::atomic<int>* forks;  // in memory shared with the parent, which watches the child's progress

void fork_in_handler(int) {
  // If a fork takes longer than the timer's period, the interrupted thread makes no progress.
  if (*forks >= wanted_forks) return;
  const pid_t child = _Fork();
  if (child == 0) _exit(0);
  if (child > 0 && waitpid(child, nullptr, 0) == child) ++*forks;
}

int start_threads_beside_forks() {
  tarn::recycler<std::string> texts({.cycle = std::chrono::milliseconds(10), .name = "texts"});
  struct sigaction action {};
  action.sa_handler = fork_in_handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  itimerval timer{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  while (*forks < wanted_forks) {
    const auto one = texts.get();
    std::thread([] {}).join();
  }
  timer = {};
  setitimer(ITIMER_REAL, &timer, nullptr);
  return 0;
}

// In a child, because a program that hangs here blocks all signals, so only SIGKILL ends it.
void check_forks() {
  void* const shared =
      mmap(nullptr, sizeof *forks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TARN_CHECK(shared != MAP_FAILED, "mmap fails");
  forks = new (shared) std::atomic<int>(0);
  const pid_t child = fork();
  if (child == 0) _exit(start_threads_beside_forks());
  int status = 0;
  pid_t found = 0;
  int seen = 0;
  for (auto since = clock_type::now(); found == 0 && clock_type::now() - since < longest_pause;) {
    std::this_thread::sleep_for(10ms);
    found = waitpid(child, &status, WNOHANG);
    if (*forks != seen) since = clock_type::now();
    seen = *forks;
  }
  if (found == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  TARN_CHECK(found == child, "a program that forks in a signal handler hangs after %d forks", seen);
  TARN_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forking child ended with status %#x",
             static_cast<unsigned>(status));
}

}  // namespace

int main() {
  check_destructors();
  check_forks();
  return 0;
}
