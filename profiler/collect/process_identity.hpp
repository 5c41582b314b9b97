// SPDX-License-Identifier: MIT
// process_identity: who a recorded process image is, and when its recording begins. Plain data.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/record/session.hpp"

namespace tarn::profiler {

// Times are on the raw clock (CLOCK_MONOTONIC_RAW).
struct process_identity {
  std::uint64_t serial = 0;  // by which children name their parent; 0: not known, as without a recorder
  std::uint64_t parent_serial = 0;  // 0: not made by fork, or the parent is not known
  std::uint32_t pid = 0;            // from the kernel
  uid_t user = 0;                   // from the kernel, when the recording began
  std::uint32_t parent_pid = 0;
  std::string program = {};  // the executable file
  std::string command = {};  // the name by which it was started
  std::string allocator = {};
  std::vector<std::string> arguments = {};
  std::uint64_t start_ns = 0;     // where its times begin
  std::uint64_t recorded_ns = 0;  // when its recorder began; from start_ns to here the dynamic loader ran
  double start_seconds = 0;       // of start_ns, since 1970
  // Start time of the process in /proc, which tells it from a later process with the same id; 0: not known.
  std::uint64_t start_ticks = 0;

  // Whether the process has ended, and its id was given to one with these ticks.
  bool is_another(std::uint64_t ticks) const { return start_ticks != 0 && ticks != start_ticks; }
};

// Sets its program, arguments, command and allocator, from what its recorder has written and from /proc. `given`: the arguments
// with which the caller started the program, if it is that one.
void take_names(process_identity& who, const process_page& page, const std::vector<std::string>& given);

}  // namespace tarn::profiler
