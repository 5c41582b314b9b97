// SPDX-License-Identifier: MIT
// small_processes: sums up processes too small for a file of their own, by the name by which they were started:
// equal sites are joined, sums are kept. A build starts thousands of such processes. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/collect/process_summary.hpp"
#include "profiler/model/merge.hpp"

namespace tarn::profiler {

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
