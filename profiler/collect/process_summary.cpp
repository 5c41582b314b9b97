// SPDX-License-Identifier: MIT
#include "profiler/collect/process_summary.hpp"

#include <string_view>

namespace tarn::profiler {

void process_summary::add(const process_summary& other) {
  images += other.images;
  allocations += other.allocations;
  bytes += other.bytes;
  faults += other.faults;
  cpu_ns += other.cpu_ns;
  charged += other.charged;
}

process_summary summary_of(const profile& p) {
  process_summary result;
  if (p.meta.is_object()) {
    result.process = p.meta.value("pid", 0U);
    result.parent = p.meta.value("parent", 0U);
    result.command = p.meta.value("command", p.meta.value("program", std::string()));
    result.arguments = p.meta.value("arguments", std::vector<std::string>());
    result.images = p.meta.value("processes", 1.0);
    const auto children = p.meta.find("small_children");
    if (children != p.meta.end() && children->is_object()) result.images += children->value("processes", 0.0);
  }
  for (const site& each : p.sites) {
    result.allocations += each.figures.allocations;
    result.bytes += each.figures.bytes;
  }
  if (!p.counters.empty()) {
    result.faults = p.counters.back().faults;
    result.cpu_ns = processor_ns(p);
  }
  result.charged = cost_of_all(p);
  return result;
}

namespace {

std::string last_component(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool is_title(std::string_view word) { return word.find_first_of(" :\t\n") != std::string_view::npos; }

}  // namespace

std::string process_name(const std::vector<std::string>& arguments, const std::string& program) {
  std::string called = arguments.empty() ? std::string() : arguments.front();
  if (called.starts_with('-')) called.erase(0, 1);
  if (!is_title(called)) called = last_component(called);
  if (called.empty() || is_title(called)) called = last_component(program);
  return called.empty() ? "program" : called;
}

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
