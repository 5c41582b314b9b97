// SPDX-License-Identifier: MIT
#include "cli/cost/cost_worker.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/launch/accepted_values.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/proc/ticks.hpp"
#include "profiler/record/session.hpp"

namespace tarn::cli {

namespace {

// After its first free, an allocator may treat blocks of that size differently.
constexpr int warmup_cycles = 2;
constexpr int fewest_cycles = 3;
constexpr int most_cycles = 10000;

// Time to start a process, and 100 ms per cycle of 1 GiB, which memory takes that the host of a virtual machine has
// to provide.
constexpr double timeout_base_seconds = 60;
constexpr double timeout_seconds_per_gib = 60;

void run_cycle(buffer_supply& supply, std::size_t size, cost_figures& sums) {
  const double start = monotonic_seconds();
  void* buffer = supply.take();
  const double taken = monotonic_seconds();
  if (buffer == nullptr) {
    throw cli_error(exit_code::refused,
                    fmt::format("cannot allocate {}: {}", profiler::say_exactly(size), std::strerror(errno)));
  }
  std::memset(buffer, 1, size);
  keep_writes(buffer);
  const double written = monotonic_seconds();
  std::memset(buffer, 2, size);
  keep_writes(buffer);
  const double rewritten = monotonic_seconds();
  supply.give_back(buffer);
  const double end = monotonic_seconds();
  sums.allocate_seconds += taken - start;
  sums.first_write_seconds += written - taken;
  sums.second_write_seconds += rewritten - written;
  sums.free_seconds += end - rewritten;
}

// Resident bytes without pages of files, such as this command's code. Read without stdio, whose buffers would add
// memory.
double resident_bytes() {
  std::array<char, 128> text{};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  unsigned long pages = 0;
  unsigned long of_files = 0;
  if (size <= 0 || std::sscanf(text.data(), "%*u %lu %lu", &pages, &of_files) != 2) return 0;
  return static_cast<double>(pages - std::min(pages, of_files)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void divide(cost_figures& sums) {
  for (double* value : {&sums.allocate_seconds, &sums.first_write_seconds, &sums.second_write_seconds,
                        &sums.free_seconds, &sums.faults, &sums.system_seconds}) {
    *value /= sums.cycles;
  }
}

}  // namespace

cost_figures measure_cycles(buffer_source source, std::size_t size, double seconds) {
  const double resident_before = resident_bytes();
  buffer_supply supply(source, size);
  cost_figures figures;
  cost_figures ignored;
  const double begin = monotonic_seconds();
  run_cycle(supply, size, ignored);
  figures.opening_seconds = monotonic_seconds() - begin;
  for (int cycle = 1; cycle < warmup_cycles; ++cycle) run_cycle(supply, size, ignored);
  rusage before = {};
  rusage after = {};
  getrusage(RUSAGE_SELF, &before);
  const double start = monotonic_seconds();
  while (figures.cycles < fewest_cycles ||
         (figures.cycles < most_cycles && monotonic_seconds() - start < seconds)) {
    run_cycle(supply, size, figures);
    figures.cycles += 1;
  }
  getrusage(RUSAGE_SELF, &after);
  figures.kept_bytes = std::max(0.0, resident_bytes() - resident_before);
  figures.faults =
      static_cast<double>(after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt);
  figures.system_seconds = seconds_of(after.ru_stime) - seconds_of(before.ru_stime);
  divide(figures);
  return figures;
}

malloc_pair measure_malloc_pair() {
  constexpr std::size_t blocks = 64;
  constexpr int passes = 15;
  constexpr int rounds = 1000;
  constexpr double pairs = blocks * rounds;
  const profiler::tick_source ticks = profiler::best_tick_source();
  profiler::tick_clock clock(ticks);
  std::array<void*, blocks> all{};
  malloc_pair least{1, 1};
  for (int pass = 0; pass < passes; ++pass) {
    const double start = thread_seconds();
    for (int round = 0; round < rounds; ++round) {
      for (void*& block : all) {
        block = std::malloc(64);
        keep_writes(&block);
      }
      for (void* block : all) std::free(block);
    }
    least.seconds = std::min(least.seconds, (thread_seconds() - start) / pairs);
    std::uint64_t timed = 0;
    for (int round = 0; round < rounds; ++round) {
      for (void*& block : all) {
        const std::uint64_t before = profiler::read_ticks(ticks);
        block = std::malloc(64);
        timed += profiler::read_ticks(ticks) - before;
        keep_writes(&block);
      }
      for (void* block : all) {
        const std::uint64_t before = profiler::read_ticks(ticks);
        std::free(block);
        timed += profiler::read_ticks(ticks) - before;
      }
    }
    // This clock also runs while another process has the processor, which can only make a pass longer.
    clock.learn();
    least.timed_seconds = std::min(least.timed_seconds, clock.duration_ns(timed) * 1e-9 / pairs);
  }
  return least;
}

int cost_worker(const std::vector<std::string>& words) {
  // The worker must not outlive the command.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  volunteer_for_oom_killer();
  if (words.size() == 2 && words[0] == prices_word) {
    fmt::print("{}\n", json_text(as_json(measure_prices(parse_byte_size(words[1])))));
    return exit_code::success;
  }
  if (words.size() == 1 && words[0] == pair_word) {
    const malloc_pair pair = measure_malloc_pair();
    fmt::print("{}\n", json_text({{"seconds", pair.seconds}, {"timed_seconds", pair.timed_seconds}}));
    return exit_code::success;
  }
  if (words.size() != 3) {
    throw cli_error(exit_code::usage, fmt::format("{} is for tarn's own use", cost_worker_word),
                    "See: tarn cost --help");
  }
  const cost_figures figures =
      measure_cycles(source_of(words[0]), parse_byte_size(words[1]), std::stod(words[2]));
  fmt::print("{}\n", json_text(figures_as_json(figures, cost_figure_names)));
  return exit_code::success;
}

std::string run_cost_worker(const contender& who, std::vector<std::string> words, double timeout_seconds) {
  words.insert(words.begin(), cost_worker_word);
  return run_worker(who, words, timeout_seconds);
}

memory_prices calibrate_prices() {
  constexpr std::uint64_t least = std::uint64_t{1} << 20;
  const auto measure = [](std::uint64_t bytes) {
    return prices_from_json(
        nlohmann::json::parse(run_cost_worker({system_name, ""}, {prices_word, std::to_string(bytes)}, 120)));
  };
  const std::uint64_t bytes = default_conditioning_bytes();
  try {
    return measure(bytes);
  } catch (const cli_error&) {  // others may have taken the memory since: the kernel then ends the worker
    if (bytes <= least) throw;
  }
  return measure(least);
}

cost_figures run_cycles(const buffer_way& way, std::size_t size, double seconds) {
  const double gib = static_cast<double>(size) / static_cast<double>(1U << 30);
  const std::vector<std::string> words = {word_of(way.source), std::to_string(size),
                                          fmt::format("{:.3f}", seconds)};
  return figures_from<cost_figures>(
      run_cost_worker(way.who, words, timeout_base_seconds + gib * timeout_seconds_per_gib),
      cost_figure_names);
}

}  // namespace tarn::cli
