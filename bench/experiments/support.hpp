// SPDX-License-Identifier: MIT
// support: what the experiments share: random numbers, clock, medians, threads that start together, options.
// Owner: the experiments in this folder. Thread safety: none of the objects is shared, start_together aside.
#pragma once

#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace experiment {

[[noreturn]] inline void die(const char* what) {
  std::fprintf(stderr, "experiment: %s\n", what);
  std::abort();
}

inline void cpu_pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

template <typename value_type>
void keep(const value_type& value) {
  asm volatile("" : : "r"(value) : "memory");
}

// xorshift64*: cheap enough not to show in what is measured.
class rng {
 public:
  explicit rng(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 0x1234567U) {}
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dU;
  }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>((next() >> 32) * limit >> 32); }

 private:
  std::uint64_t state_;
};

template <typename item_type>
void shuffle(std::vector<item_type>& items, rng& random) {
  for (std::size_t rest = items.size(); rest > 1; --rest)
    std::swap(items[rest - 1], items[random.below(rest)]);
}

inline double now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// The processor time of the calling thread. On a machine that does other work too it is the steadier measure:
// it does not count the time in which somebody else ran. One call costs half a microsecond.
inline double cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// The calling thread stays on one processor; without effect where that is not allowed.
inline void pin_to(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % std::max(1U, std::thread::hardware_concurrency()), &set);
  sched_setaffinity(0, sizeof set, &set);
}

struct elapsed {
  double wall_ns = 0;
  double cpu_ns = 0;  // of all threads together
};

// Runs body(index, wait) on `count` threads. The body calls wait() twice, before and after what is timed.
template <typename body_type>
elapsed start_together(unsigned count, body_type body) {
  std::barrier gate(static_cast<std::ptrdiff_t>(count) + 1);
  std::vector<std::thread> threads;
  std::vector<double> used(count, 0.0);
  std::vector<double> begins(count, 0.0);
  std::vector<double> ends(count, 0.0);
  for (unsigned index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      bool started = false;
      body(index, [&] {
        if (started) {
          used[index] = cpu_ns() - used[index];
          ends[index] = now_ns();
        }
        gate.arrive_and_wait();
        if (!started) {
          begins[index] = now_ns();
          used[index] = cpu_ns();
        }
        started = true;
      });
    });
  }
  gate.arrive_and_wait();  // every thread has prepared itself
  gate.arrive_and_wait();  // every thread has finished what is timed
  for (std::thread& thread : threads) thread.join();
  // The threads' own clock readings: this thread may be late.
  elapsed result{
      *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end()), 0};
  for (const double each : used) result.cpu_ns += each;
  return result;
}

// Samples per (row, column), printed as median and range.
class table {
 public:
  // Rows and columns stand in the order in which they were first named.
  void expect(const std::vector<std::string>& rows, const std::vector<std::string>& columns) {
    for (const std::string& row : rows) note(rows_, row);
    for (const std::string& column : columns) note(columns_, column);
  }
  void add(const std::string& row, const std::string& column, double value) {
    note(rows_, row);
    note(columns_, column);
    samples_[{row, column}].push_back(value);
  }
  void print(const char* title) const {
    std::printf("\n%s\n| |", title);
    for (const std::string& column : columns_) std::printf(" %s |", column.c_str());
    std::printf("\n|---|");
    for (std::size_t index = 0; index < columns_.size(); ++index) std::printf("---|");
    std::printf("\n");
    for (const std::string& row : rows_) {
      std::printf("| %s |", row.c_str());
      for (const std::string& column : columns_) print_cell(samples_.find({row, column}));
      std::printf("\n");
    }
    std::fflush(stdout);
  }

 private:
  using samples_type = std::map<std::pair<std::string, std::string>, std::vector<double>>;

  static void note(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  void print_cell(samples_type::const_iterator cell) const {
    if (cell == samples_.end()) {
      std::printf(" – |");
      return;
    }
    std::vector<double> sorted = cell->second;
    std::sort(sorted.begin(), sorted.end());
    std::printf(" %.4g [%.4g..%.4g] |", sorted[sorted.size() / 2], sorted.front(), sorted.back());
  }

  std::vector<std::string> rows_;
  std::vector<std::string> columns_;
  samples_type samples_;
};

struct options {
  unsigned rounds = 9;
  double scale = 1.0;  // of every workload's size
  std::string only;    // run rows whose name contains this
};

[[noreturn]] inline void usage(const char* program, const char* why) {
  std::fprintf(stderr, "%s: %s\nusage: %s [--rounds N] [--scale X] [--only TEXT]\n", program, why, program);
  std::exit(2);
}

inline options parse(int count, char** words) {
  options result;
  for (int index = 1; index < count; index += 2) {
    const std::string word = words[index];
    if (index + 1 >= count) usage(words[0], "an option lacks its value");
    const char* value = words[index + 1];
    char* end = nullptr;
    const double number = std::strtod(value, &end);
    const bool positive = *end == '\0' && end != value && number > 0;
    if (word == "--rounds") {
      if (!positive || number < 1 || number > 1000) usage(words[0], "--rounds takes a number from 1 to 1000");
      result.rounds = static_cast<unsigned>(number);
    } else if (word == "--scale") {
      if (!positive || number > 1) usage(words[0], "--scale takes a number above 0, at most 1");
      result.scale = number;
    } else if (word == "--only") {
      result.only = value;
    } else {
      usage(words[0], "unknown option");
    }
  }
  return result;
}

}  // namespace experiment
