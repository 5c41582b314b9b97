// SPDX-License-Identifier: MIT
// small_processes: what processes did that are too small for a file of their own, by the name they were started as: their
// sites are joined, their sums kept. A build starts thousands of them.
// Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/collect/process_summary.hpp"
#include "profiler/model/merge.hpp"

namespace tarn::profiler {

class small_processes {
 public:
  // A process that has ended; its symbols are not needed.
  void add(const profile& p, const process_summary& summary);

  bool empty() const noexcept { return groups_.empty(); }
  // One for each name.
  const std::vector<process_summary>& groups() const noexcept { return groups_; }
  std::vector<process_summary>& groups() noexcept { return groups_; }
  // As a merged profile, one process for each name, in the order of groups(). Once.
  profile take() { return merger_.take(); }

 private:
  static constexpr std::size_t most_groups = 256;

  profile_merger merger_;
  std::vector<process_summary> groups_;
  std::map<std::string, std::size_t> group_of_;
};

}  // namespace tarn::profiler
