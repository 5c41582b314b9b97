// SPDX-License-Identifier: MIT
// process_summary: totals of one recorded process, or of several small processes of one name. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct process_summary {
  std::uint32_t process = 0;           // process id; 0: several processes
  std::uint32_t parent = 0;            // process id of the parent
  std::string command;                 // the name by which it was started
  std::vector<std::string> arguments;  // argv, from argv[0] on; empty: several processes
  // Number of process images in the totals: the process and its merged small children, or all processes of the name.
  double images = 1;
  std::string path;           // file of the profile that includes it; empty: none
  bool has_own_file = false;  // that file is its own, not the shared one of small processes
  double allocations = 0;
  double bytes = 0;   // requested
  double faults = 0;  // page faults
  double cpu_ns = 0;
  cost charged;  // processor time attributed to memory management

  // Adds the totals, from `images` on. The members that identify the process, and the path, stay.
  void add(const process_summary& other);
};

// The totals of a profile; path and has_own_file are left empty. Requires: p.counters and p.meta are filled.
process_summary summary_of(const profile& p);

}  // namespace tarn::profiler
