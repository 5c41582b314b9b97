// SPDX-License-Identifier: MIT
// Line 17: during 10^7 operations (3 * 10^8 in a long run), signals at 1 kHz, handled without SA_RESTART, make no call
// fail and do not change errno.
#include <errno.h>
#include <sys/time.h>

#include <atomic>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int mark = 12345;
std::atomic<size_t> signals{0};
std::atomic<void*> exchange_place[256];
size_t operations_per_thread = 0;

void on_timer(int) { signals.fetch_add(1, std::memory_order_relaxed); }

void* operate(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  errno = mark;
  for (size_t i = 0; i < operations_per_thread; i += 2) {
    const size_t kind = random.below(2000);
    const size_t size = kind == 0   ? random.below(20 * mib) + 1
                        : kind < 20 ? random.below(200 * kib) + 1
                                    : random.below(1000) + 1;
    void* block = kind % 4 == 0 ? realloc(malloc(size / 2 + 1), size) : malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails under signals, errno %d", size, errno);
    TARN_CHECK(errno == mark, "malloc(%zu) changes errno to %d under signals", size, errno);
    *static_cast<char*>(block) = 1;
    free(exchange_place[random.below(256)].exchange(block, std::memory_order_acq_rel));
    TARN_CHECK(errno == mark, "free changes errno to %d under signals", errno);
  }
  return nullptr;
}

}  // namespace

int main() {
  start();
  const size_t operations = (long_run() ? 300'000'000 : 10'000'000) / slowness();
  operations_per_thread = operations / 2;
  struct sigaction action {};
  action.sa_handler = on_timer;
  sigaction(SIGALRM, &action, nullptr);
  const double began = wall_seconds();
  const itimerval every_millisecond{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every_millisecond, nullptr);
  const pthread_t threads[] = {start_thread(operate, reinterpret_cast<void*>(1)),
                               start_thread(operate, reinterpret_cast<void*>(2))};
  // The kernel would send the timer's signals to the main thread, which only waits; blocked here, they go to the other
  // two.
  sigset_t timer_signal;
  sigemptyset(&timer_signal);
  sigaddset(&timer_signal, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &timer_signal, nullptr);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
  const double rate = static_cast<double>(signals.load()) / (wall_seconds() - began);
  measured("%zu operations, %zu signals, %.0f per second", operations, signals.load(), rate);
  if (signals.load() < 50) skip("this machine delivers only %.0f signals a second", rate);
  return holds;
}
