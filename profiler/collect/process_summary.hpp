// SPDX-License-Identifier: MIT
// process_summary: totals of one recorded process, or of several small processes of one name. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/model/merge.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct process_summary {
  std::uint32_t process = 0;                // process id; 0: several processes
  std::uint32_t parent = 0;                 // process id of the parent
  std::string command;                      // the name by which it was started
  std::vector<std::string> arguments = {};  // argv, from argv[0] on; empty: several processes
  // Number of process images in the totals: the process and its merged small children, or all processes of the name.
  double images = 1;
  std::string path = {};      // file of the profile that includes it; empty: none
  bool has_own_file = false;  // that file is its own, not the shared one of small processes
  double allocations = 0;
  double bytes = 0;   // requested
  double faults = 0;  // page faults
  double cpu_ns = 0;
  cost charged = {};  // processor time attributed to memory management

  // Adds the totals, from `images` on. The members that identify the process, and the path, stay.
  void add(const process_summary& other);
};

// The name of a process in tables and file names: the name by which it was started, as one file may be started under
// several names (busybox; redis-server and redis-check-rdb). It is the last component of arguments[0], without the dash of a
// login shell; of `program`, the path of the executable file, where arguments[0] is missing or is a title that the program
// has set ("nginx: worker process"). Never empty.
std::string process_name(const std::vector<std::string>& arguments, const std::string& program);

// The totals of a profile; path and has_own_file are left empty. Requires: p.counters and p.meta are filled.
process_summary summary_of(const profile& p);

// Sums up processes too small for a file of their own, by the name by which they were started:
// equal sites are joined, sums are kept. A build starts thousands of such processes. Not thread-safe.
class small_processes {
 public:
  // Adds a process that has ended. Its symbols are not used.
  void add(const profile& p, const process_summary& summary);

  bool empty() const noexcept { return groups_.empty(); }
  // One group per name.
  const std::vector<process_summary>& groups() const noexcept { return groups_; }
  std::vector<process_summary>& groups() noexcept { return groups_; }
  // The merged profile, with one process per name, in the order of groups(). May be called once.
  profile take() { return merger_.take(); }

 private:
  static constexpr std::size_t most_groups = 256;

  profile_merger merger_;
  std::vector<process_summary> groups_;
  std::map<std::string, std::size_t> group_of_;
};

}  // namespace tarn::profiler
