// SPDX-License-Identifier: MIT
#include "profiler/proc/ticks.hpp"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/architecture.hpp"

namespace tarn::profiler {

namespace {

constexpr unsigned counter_shift = 5;  // a tick is 32 counts: about 10 ns at 3 GHz
constexpr unsigned clock_shift = 4;
constexpr std::uint64_t first_stretch_ns = 20'000'000;

std::uint64_t read_clock(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::uint64_t raw_clock_ns() { return read_clock(CLOCK_MONOTONIC_RAW); }

std::uint64_t thread_clock_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

tick_source best_tick_source() {
  if (arch::counter_is_steady) return tick_source::counter;
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  file >> name;
  if (name == "tsc") return tick_source::counter;
  if (name != "kvm-clock") return tick_source::system_clock;
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    if (line.starts_with("flags")) {
      return line.find(" constant_tsc") != std::string::npos && line.find(" nonstop_tsc") != std::string::npos
                 ? tick_source::counter
                 : tick_source::system_clock;
    }
  }
  return tick_source::system_clock;
}

std::uint64_t step_of_ticks(tick_source source) {
  constexpr std::size_t wanted = 1000;
  std::vector<std::uint64_t> steps;
  for (std::uint64_t before = read_ticks(source); steps.size() < wanted;) {
    const std::uint64_t now = read_ticks(source);
    if (now != before) steps.push_back(now - before);
    before = now;
  }
  std::nth_element(steps.begin(), steps.begin() + wanted / 2, steps.end());
  return steps[wanted / 2];
}

tick_clock::tick_clock(tick_source source) : source_(source), shift_(clock_shift) {
  if (source == tick_source::counter) shift_ = arch::counter_is_steady ? 0 : counter_shift;
  first_ = last_ = read();
  while (raw_clock_ns() - first_.ns < first_stretch_ns) {
  }
  learn();
}

// Reads both clocks at nearly the same moment: of several attempts, the one that took least time.
tick_clock::reading tick_clock::read() const {
  reading best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::uint64_t before = read_ticks(source_);
    const std::uint64_t ns = raw_clock_ns();
    const std::uint64_t after = read_ticks(source_);
    if (after - before >= least) continue;
    least = after - before;
    best = {before + (after - before) / 2, ns};
  }
  return best;
}

void tick_clock::learn() {
  last_ = read();
  const auto ticks = static_cast<double>(last_.ticks - first_.ticks);
  if (ticks > 0) ns_per_tick_ = static_cast<double>(last_.ns - first_.ns) / ticks;
}

std::uint64_t tick_clock::to_ns(std::uint64_t ticks) const noexcept {
  const auto distance = static_cast<std::int64_t>((ticks << shift_) - last_.ticks);
  return last_.ns +
         static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<double>(distance) * ns_per_tick_));
}

}  // namespace tarn::profiler
