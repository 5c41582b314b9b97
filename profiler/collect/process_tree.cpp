// SPDX-License-Identifier: MIT
#include "profiler/collect/process_tree.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "os/invariant.hpp"

namespace tarn::profiler {

recorded_process* process_tree::by_id(std::uint32_t process) const {
  for (auto at = processes_.rbegin(); at != processes_.rend(); ++at) {
    if ((*at)->identity().pid == process) return at->get();
  }
  return nullptr;
}

recorded_process* process_tree::by_serial(std::uint64_t serial) const {
  for (const auto& process : processes_) {
    if (serial != 0 && process->identity().serial == serial) return process.get();
  }
  return nullptr;
}

recorded_process* process_tree::parent_of(const recorded_process& process) const {
  recorded_process* parent = by_serial(process.identity().parent_serial);
  return parent != nullptr && parent->identity().user == process.identity().user ? parent : nullptr;
}

recorded_process& process_tree::add(std::unique_ptr<recorded_process> process) {
  processes_.push_back(std::move(process));
  if (os::is_check_due(processes_.size())) validate();
  return *processes_.back();
}

std::unique_ptr<recorded_process> process_tree::remove(const recorded_process& process) {
  const auto at = std::find_if(processes_.begin(), processes_.end(),
                               [&process](const auto& one) { return one.get() == &process; });
  std::unique_ptr<recorded_process> removed = std::move(*at);
  processes_.erase(at);
  return removed;
}

recorded_process& process_tree::next() {
  next_ = next_ + 1 < processes_.size() ? next_ + 1 : 0;
  return *processes_[next_];
}

void process_tree::note_exec(std::uint32_t process, std::uint64_t time_ns) {
  if (executed_ns_.size() >= most_execs && !executed_ns_.contains(process)) return;
  std::vector<std::uint64_t>& times = executed_ns_[process];
  times.insert(std::upper_bound(times.begin(), times.end(), time_ns), time_ns);
}

std::uint64_t process_tree::take_exec(std::uint32_t process, std::uint64_t until_ns) {
  const auto found = executed_ns_.find(process);
  if (found == executed_ns_.end()) return 0;
  std::vector<std::uint64_t>& times = found->second;
  const auto later = std::upper_bound(times.begin(), times.end(), until_ns);
  const std::uint64_t last = later == times.begin() ? 0 : *(later - 1);
  times.erase(times.begin(), later);
  if (times.empty()) executed_ns_.erase(found);
  return last;
}

bool process_tree::is_of_next_image(std::uint32_t process, std::uint64_t time_ns) const {
  const auto next = executed_ns_.find(process);
  return next != executed_ns_.end() && time_ns >= next->second.front();
}

void process_tree::validate() const {
  std::set<std::uint64_t> serials;
  for (const auto& process : processes_) {
    const std::uint64_t serial = process->identity().serial;
    TARN_INVARIANT("process_tree", this, serial == 0 || serials.insert(serial).second);
  }
}

}  // namespace tarn::profiler
