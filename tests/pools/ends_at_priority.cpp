// SPDX-License-Identifier: MIT
// A thread of real-time priority destroys pools and recyclers while a thread of normal priority works on them on the
// same processor. It must sleep, not spin, until that thread has finished: a spinning real-time thread would run until
// the kernel throttles it after 0.95 s. The test measures the processor time of the real-time thread, because the time
// that it sleeps depends on other programs.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "program.hpp"
#include "tarn/recycler.hpp"

namespace {

using pools_test::order;

// Seconds of processor time. Destroying a pool and a recycler takes some milliseconds; spinning would take 0.95 s.
constexpr double longest_allowed = 0.5;
constexpr int rounds = 150;

void run_on_one_processor() {
  cpu_set_t allowed;
  cpu_set_t one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) guarantee::skip("sched_getaffinity fails");
  int processor = 0;
  while (!CPU_ISSET(processor, &allowed)) ++processor;
  CPU_SET(processor, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) guarantee::skip("sched_setaffinity fails");
}

void become_real_time() {
  sched_param priority{};
  priority.sched_priority = 50;
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) guarantee::skip("SCHED_FIFO is not permitted");
}

// An object whose destructor takes 50 microseconds, so that ending a generation takes a while.
struct slow {
  ~slow() {
    const double until = guarantee::wall_seconds() + 50e-6;
    while (guarantee::wall_seconds() < until) {
    }
  }
};

// A pool and a recycler that have been used; its destructor ends both.
struct both {
  tarn::object_pool<order> pool;
  tarn::recycler<slow> recycler{{.cycle = std::chrono::milliseconds(10)}};

  both() {
    std::vector<order*> orders(30'000);
    for (order*& each : orders) each = pool.create(1U);
    for (order* each : orders) pool.destroy(each);
    std::vector<decltype(recycler.get())> taken;
    for (int i = 0; i < 100; ++i) taken.push_back(recycler.get());
  }
};

}  // namespace

int main() {
  guarantee::start();
  run_on_one_processor();
  // The normal thread is nearly always inside a function that trims pools and recyclers.
  static std::atomic<bool> stop{false};
  std::jthread worker([] {
    while (!stop.load(std::memory_order_relaxed)) tarn_trim(0);
  });
  become_real_time();
  double longest = 0;
  for (int i = 0; i < rounds; ++i) {
    std::optional<both> each;
    each.emplace();
    // Gives the worker, and the thread that ends generations, time to reach the pool and the recycler.
    guarantee::sleep_ms(1 + i % 12);
    const double used = guarantee::seconds_of(CLOCK_THREAD_CPUTIME_ID);
    each.reset();
    longest = std::max(longest, guarantee::seconds_of(CLOCK_THREAD_CPUTIME_ID) - used);
  }
  stop.store(true);
  guarantee::measured("%d ends of a pool and a recycler: at most %.1f ms of processor time", rounds,
                      longest * 1e3);
  TARN_CHECK(longest < longest_allowed, "ending a pool and a recycler takes %.0f ms of processor time",
             longest * 1e3);
  return guarantee::holds;
}
