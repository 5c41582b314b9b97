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
  std::uint32_t process = 0;  // 0: several
  std::uint32_t parent = 0;
  std::string command;                 // what it was started as
  std::vector<std::string> arguments;  // with the command's name; empty: several
  // Process images that the figures are of: it, and what small ones were added to it.
  double images = 1;
  std::string path;           // of the profile that it is in; empty: it is in none
  bool has_own_file = false;  // which is of it alone
  double allocations = 0;
  double bytes = 0;
  double faults = 0;
  double cpu_ns = 0;
  cost charged;

  // Adds figures; who it is stays.
  void add(const process_summary& other);
};

// The figures of a profile. Requires that it is complete: counters and meta too.
process_summary summary_of(const profile& p);

}  // namespace tarn::profiler
