// SPDX-License-Identifier: MIT
// A thread of real-time priority that ends pools and recyclers does not spin for a thread of normal priority that works
// on them on the same processor: it sleeps until that thread has finished. The kernel's limit on real-time threads would
// let the other thread go on only after most of a second of spinning. What counts is the processor time of the real-time
// thread: how long it sleeps depends on the other programs of the machine, which the normal thread shares it with.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "program.hpp"
#include "tarn/recycler.hpp"

namespace {

using pools_test::order;

// Seconds of processor time. An end needs some milliseconds; a thread that spins is stopped after 0.95.
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

// An object whose end takes some time, so that a generation's end does.
struct slow {
  ~slow() {
    const double until = guarantee::wall_seconds() + 50e-6;
    while (guarantee::wall_seconds() < until) {
    }
  }
};

// Made and used; ends by its destructor.
struct both {
  tarn::object_pool<order> pool;
  tarn::recycler<slow> recycler{{.cycle_ms = 10}};

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
  // The normal thread is inside of pools and recyclers nearly always.
  static std::atomic<bool> stop{false};
  std::jthread worker([] {
    while (!stop.load(std::memory_order_relaxed)) tarn_trim(0);
  });
  become_real_time();
  double longest = 0;
  for (int i = 0; i < rounds; ++i) {
    std::optional<both> each;
    each.emplace();
    // The worker, and the threads that end generations, go into it.
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
