// SPDX-License-Identifier: MIT
#include "profiler/collect/small_processes.hpp"

namespace tarn::profiler {

void small_processes::add(const profile& p, const process_summary& summary) {
  const bool is_full = groups_.size() >= most_groups;
  const std::string name =
      is_full && !group_of_.contains(summary.command) ? "other programs" : summary.command;
  const auto [group, is_new] = group_of_.try_emplace(name, groups_.size());
  if (is_new) {
    groups_.push_back(summary);
    groups_.back().command = name;
  } else {
    process_summary& sum = groups_[group->second];
    sum.add(summary);
    sum.process = 0;
    sum.arguments.clear();
  }
  merger_.add_to(group->second, p);
}

}  // namespace tarn::profiler
