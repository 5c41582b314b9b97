// SPDX-License-Identifier: MIT
// call_tails: how long the calls of malloc took in a run of a program, or in several: by function, size, and whether they took
// page faults. tail_file: the memory in which the processes of one run count them. Durations are in ticks of the source. For one
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch/environment.hpp"
#include "cli/launch/scratch_file.hpp"
#include "profiler/tail/tail_page.hpp"

namespace tarn::cli {

using profiler::tail::call_kind;
using profiler::tail::call_state;

class call_durations {
 public:
  void add(const profiler::tail::counted_calls& counted);
  void add(const call_durations& more);
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t worst() const noexcept { return worst_; }
  // What `share` of all calls do not exceed, exact to 3 %. None if fewer than ten calls exceed it: then it says little about the
  // next run.
  std::optional<double> quantile(double share) const;

 private:
  std::vector<std::uint64_t> buckets_;  // empty: no calls
  std::uint64_t calls_ = 0;
  std::uint64_t worst_ = 0;
};

struct call_tails {
  std::array<call_durations, profiler::tail::place_count> calls;  // by place_of()
  std::uint32_t threads = 0;
  std::uint32_t by_usage = 0;     // of these: watched by getrusage
  int refusal = 0;                // errno of the events that were refused for them
  std::uint64_t timer_ticks = 0;  // subtracted from each duration

  const call_durations& of(call_kind kind, std::size_t group, call_state state) const {
    return calls[profiler::tail::place_of(kind, group, state)];
  }
  void add(const call_tails& more);
};

// How the calls of a run are timed.
struct tail_settings {
  std::string library;  // libtarn_tail.so
  profiler::tick_source source = profiler::tick_source::counter;
};

class tail_file {
 public:
  // Throws cli_error.
  explicit tail_file(const tail_settings& settings);
  ~tail_file();
  tail_file(const tail_file&) = delete;
  tail_file& operator=(const tail_file&) = delete;

  // For a program that is to count in it: the library in front of all others, and where this file is.
  void join(environment& variables) const;
  // Requires: the processes that count have ended.
  call_tails read() const;

 private:
  const std::string library_;
  open_file file_;
  profiler::tail::tail_page* page_ = nullptr;
};

}  // namespace tarn::cli
