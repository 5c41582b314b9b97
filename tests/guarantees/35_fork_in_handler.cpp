// SPDX-License-Identifier: MIT
// Line 35: a signal handler that interrupts malloc, free or fork may fork. Both processes then continue the interrupted
// call, and the child has an intact heap.
#include <errno.h>
#include <limits.h>

#include <atomic>

#include "kernel_emulator.hpp"

using namespace guarantee;

namespace {

constexpr int most_children = 16;
volatile sig_atomic_t in_child = 0;
volatile sig_atomic_t children = 0;
volatile pid_t child_ids[most_children];
std::atomic<bool> stop{false};

void fork_here(int) {
  const int error = errno;
  if (in_child == 0 && children < most_children) {
    const pid_t child = fork();
    if (child == 0) {
      in_child = 1;
      alarm(20 * slowness());
    } else if (child > 0) {
      child_ids[children] = child;
      children = children + 1;
    }
  }
  errno = error;
}

constexpr size_t place_count = 512;
struct block {
  void* memory;
  size_t size;
};
block blocks[place_count];

// Sizes that use all of the engine: thread caches, spans, large blocks.
void churn_once(random_numbers& random) {
  block& place = blocks[random.below(place_count)];
  TARN_CHECK(place.memory == nullptr || stamped(place.memory, place.size, place.size < 64 ? place.size : 64),
             "a block of %zu bytes has lost its content", place.size);
  free(place.memory);
  place.memory = nullptr;
  const size_t size = random.size_up_to_bits(random.below(100) == 0 ? 21 : 14);
  void* const memory = malloc(size);
  TARN_CHECK(memory != nullptr, "malloc(%zu) fails", size);
  stamp(memory, size, 0, size < 64 ? size : 64);
  place = {memory, size};
}

void* churn_beside(void*) {
  while (!stop.load(std::memory_order_relaxed)) {
    for (size_t size = 16; size < mib; size *= 2) free(malloc(size));
  }
  return nullptr;
}

void* churn_a_while(void*) {
  for (int i = 0; i < 20; ++i) {
    for (size_t size = 16; size < mib; size *= 2) free(malloc(size));
  }
  return nullptr;
}

void* nothing(void*) { return nullptr; }

std::atomic<bool> is_purging{false};

long stay_in_call(const kernel::call& c) {
  is_purging.store(true);
  while (!stop.load()) usleep(1000);
  return kernel::pass(c);
}

// Stays inside a system call that gives memory back as long as the test runs. The thread never ends: libc unmaps a
// thread's stack with signals blocked, so the trap could not be handled.
void* purge_for_ever(void*) {
  // Blocks the timer's signal: a child forked by this thread would be a copy of a thread that never ends.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGVTALRM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Of a large block the hardened build gives the memory back at once, and leaves nothing for tarn_trim().
  void* small[2000];
  for (void*& each : small) each = memset(malloc(10'000), 1, 10'000);
  for (void* const each : small) free(each);
  kernel::emulate(stay_in_call);
  tarn_trim(0);
  // stay_in_call() has returned only if the test has ended.
  if (!is_purging.load()) fail("tarn_trim(0) after a free of 20 MB makes no system call");
  for (;;) pause();
}

// A request that must fail does not wait for threads that exist only in the parent.
void fail_at_once() {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit limited{address_space(), before.rlim_max};
  setrlimit(RLIMIT_AS, &limited);
  long least_ms = LONG_MAX;
  for (int i = 0; i < 3; ++i) {
    timespec from{}, to{};
    clock_gettime(CLOCK_MONOTONIC, &from);
    TARN_CHECK(malloc(512 * mib) == nullptr, "malloc(512 MiB) succeeds above the limit");
    clock_gettime(CLOCK_MONOTONIC, &to);
    const long ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1'000'000;
    if (ms < least_ms) least_ms = ms;
  }
  setrlimit(RLIMIT_AS, &before);
  TARN_CHECK(least_ms < 150, "each request that fails takes %ld ms or more in a child", least_ms);
}

// Runs in the handler's child after the interrupted call has returned: uses the heap, starts a thread and forks.
[[noreturn]] void be_a_child(random_numbers& random, bool had_threads) {
  for (int i = 0; i < 300; ++i) churn_once(random);
  if (is_purging.load()) fail_at_once();
  // If other threads of the parent allocated, the new thread does nothing: they may have held libc's own locks at the
  // fork.
  pthread_join(start_thread(had_threads ? nothing : churn_a_while, nullptr), nullptr);
  expect_good(run_in_child(10,
                           [] {
                             for (block& each : blocks) free(each.memory);
                             free(malloc(mib));
                             return holds;
                           }),
              "a child of the handler's child");
  _exit(holds);
}

void wait_for_children() {
  while (children > 0) {
    const int last = children - 1;
    expect_good(wait_for(child_ids[last]), "a child of the handler");
    children = last;
  }
}

// Runs `step` while the handler's signals arrive at any moment of it.
template <class function>
int interrupt(int rounds, int threads, function step) {
  struct sigaction action {};
  action.sa_handler = fork_here;
  action.sa_flags = SA_RESTART;
  sigaction(SIGVTALRM, &action, nullptr);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGVTALRM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // the other threads inherit it
  pthread_t beside[4];
  for (int i = 0; i < threads; ++i) beside[i] = start_thread(churn_beside, nullptr);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  random_numbers random(static_cast<uint64_t>(rounds));
  timer_t timer{};
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGVTALRM;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) skip("timer_create fails");
  for (int done = 0; done < rounds;) {
    // The signal comes after a random time.
    const itimerspec once{{0, 0}, {0, static_cast<long>(1000 + random.below(300'000))}};
    timer_settime(timer, 0, &once, nullptr);
    while (children == 0 && in_child == 0) step(random);
    if (in_child != 0) be_a_child(random, threads != 0);
    done += children;
    wait_for_children();
  }
  stop.store(true);
  for (int i = 0; i < threads; ++i) pthread_join(beside[i], nullptr);
  return holds;
}

void fork_once(random_numbers& random) {
  churn_once(random);
  const pid_t child = fork();
  if (child < 0) skip("fork fails");
  if (child == 0) {
    churn_once(random);
    _exit(holds);
  }
  int status = 0;
  while (waitpid(child, &status, 0) != child) {
    // The handler's child also gets here if the signal interrupted waitpid; there `child` is not its child.
    if (errno == ECHILD) return;
  }
  TARN_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == holds, "a child of the interrupted fork: status %x",
             status);
}

}  // namespace

int main() {
  start();
  const int rounds = long_run() ? 20'000 : 300;
  const auto many = [](int forks, int threads, auto step) {
    return run_in_child(long_run() ? 3600 : 60, [=] { return interrupt(forks, threads, step); });
  };
  expect_good(many(rounds, 0, churn_once), "fork in a handler that interrupts malloc and free");
  expect_good(many(rounds, 0, fork_once), "fork in a handler that interrupts fork");
  expect_good(many(rounds / 10, 3, churn_once), "the same beside three threads that allocate");
  if (system_probes::address_space_is_limited() && tarn_trim != nullptr) {
    const child_result beside_purge = run_in_child(long_run() ? 3600 : 60, [=] {
      start_thread(purge_for_ever, nullptr);
      while (!is_purging.load()) usleep(1000);
      return interrupt(rounds, 0, churn_once);
    });
    expect_good(beside_purge, "the same beside a thread that is giving memory back");
  }
  measured(
      "%d forks in a handler that interrupts malloc and free, as many in one that interrupts fork, and %d beside "
      "three threads that allocate",
      rounds, rounds / 10);
  return holds;
}
