// SPDX-License-Identifier: MIT
#include "profiler/collect/clock_price.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace tarn::profiler {

namespace {

constexpr std::uint64_t least_period = 499'979;
constexpr std::uint64_t least_first_period = 199'999;
// Shares of the processor time. Context switches and displaced cache lines raise the total cost by a quarter.
constexpr double most_part = 0.004;
constexpr double most_first_part = 0.01;
constexpr std::uint64_t tried_period = 100'000;
constexpr int passes = 8;
constexpr std::uint64_t turns = 800'000;  // 1 ms and more
constexpr std::size_t data_pages = 16;    // hold all samples of all passes

double thread_ns() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

double work_ns() {
  const double begin = thread_ns();
  std::uint64_t value = 1;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    value *= 0x9e3779b97f4a7c15U;
    asm volatile("" : "+r"(value));
  }
  return thread_ns() - begin;
}

int open_clock_of_this_thread() {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = tried_period;
  attributes.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  attributes.disabled = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

double clock_sample_price() {
  const int clock = open_clock_of_this_thread();
  if (clock < 0) return 0;
  const auto bytes = (1 + data_pages) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, clock, 0);
  // The minimum of several passes: other load on the machine can only add time.
  double without = std::numeric_limits<double>::max();
  double with = without;
  for (int pass = 0; pass < passes; ++pass) {
    without = std::min(without, work_ns());
    ioctl(clock, PERF_EVENT_IOC_ENABLE, 0);
    with = std::min(with, work_ns());
    ioctl(clock, PERF_EVENT_IOC_DISABLE, 0);
  }
  if (memory != MAP_FAILED) munmap(memory, bytes);
  close(clock);
  return std::max(0.0, with - without) * tried_period / with;
}

clock_periods clock_periods_for(double price_ns) noexcept {
  const auto period = [price_ns](double part) {
    return static_cast<std::uint64_t>(std::min(1e8, price_ns / part));
  };
  return {std::max(least_first_period, period(most_first_part)), std::max(least_period, period(most_part))};
}

}  // namespace tarn::profiler
