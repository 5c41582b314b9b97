// SPDX-License-Identifier: MIT
// process_summary: one process of a recorded tree, or many small ones of one name, in a few figures.
// Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct process_summary {
  std::uint32_t process = 0;  // 0: several processes
  std::uint32_t parent = 0;
  std::string command;                 // what it was started as
  std::vector<std::string> arguments;  // with the command's name; empty: several
  // Number of process images in the figures: the process itself, and small ones that were added to it.
  double images = 1;
  std::string path;           // of the profile that holds it; empty: none does
  bool has_own_file = false;  // `path` holds this process alone
  double allocations = 0;
  double bytes = 0;
  double faults = 0;
  double cpu_ns = 0;
  cost charged;

  // Adds the figures; name, numbers and path stay.
  void add(const process_summary& other);
};

// The figures of a profile. Requires that counters and meta are filled in.
process_summary summary_of(const profile& p);

}  // namespace tarn::profiler
