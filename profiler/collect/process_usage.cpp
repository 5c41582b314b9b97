// SPDX-License-Identifier: MIT
#include "profiler/collect/process_usage.hpp"

#include <algorithm>

namespace tarn::profiler {

namespace {

// The kernel does not tell what a process had used when it called exec. Since then it has used at most the time that has
// passed, as one thread loads a program, and at most what its earlier images have not used.
usage_figures before_exec(const image_facts& image) {
  const auto left = [](std::uint64_t all, double part) {
    return static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(all) - part));
  };
  usage_figures before = image.at_start;
  const bool sees_all = image.has_earlier || image.sees_kernel;
  before.minor_faults = sees_all ? left(before.minor_faults, image.loading_faults) : 0;
  if (!image.has_earlier) before.major_faults = 0;
  const auto used = static_cast<double>(before.user_ns + before.system_ns);
  const auto passed = static_cast<double>(image.recorded_ns - image.executed_ns);
  const double part = used > 0 ? std::min(passed, std::max(0.0, used - image.earlier_ns)) / used : 0;
  before.user_ns = left(before.user_ns, part * static_cast<double>(before.user_ns));
  before.system_ns = left(before.system_ns, part * static_cast<double>(before.system_ns));
  return before;
}

}  // namespace

image_begin begin_of(const image_facts& image) {
  const bool is_exec_missing = image.executed_ns == 0 && image.has_earlier;
  if ((!image.is_forked && image.is_attached) || is_exec_missing) return {image.recorded_ns, image.at_start};
  if (image.is_forked) return {image.recorded_ns, {}};
  if (image.executed_ns != 0) return {image.executed_ns, before_exec(image)};
  const bool is_started = image.started_ns != 0;
  return {is_started ? std::min(image.recorded_ns, image.started_ns) : image.recorded_ns, {}};
}

void process_usage::read(const process_figures& now) {
  const double resident = last_.resident_bytes;
  last_ = now;
  if (now.has_ended()) last_.resident_bytes = resident;
}

void process_usage::end_by_exec(const usage_figures& at_exec) {
  last_.minor_faults = static_cast<double>(at_exec.minor_faults);
  last_.major_faults = static_cast<double>(at_exec.major_faults);
  last_.user_ns = static_cast<double>(at_exec.user_ns);
  last_.system_ns = static_cast<double>(at_exec.system_ns);
}

void process_usage::end_by_exit(const usage_figures& at_exit) {
  const auto raise = [](double& figure, std::uint64_t to) {
    figure = std::max(figure, static_cast<double>(to));
  };
  raise(last_.minor_faults, at_exit.minor_faults);
  raise(last_.major_faults, at_exit.major_faults);
  raise(last_.user_ns, at_exit.user_ns);
  raise(last_.system_ns, at_exit.system_ns);
  // The kernel's peak covers earlier images too; it is this image's if it has grown since the recording began.
  if (at_exit.peak_bytes <= at_start_.peak_bytes) return;
  raise(peak_resident_, at_exit.peak_bytes);
  is_peak_exact_ = true;
}

double process_usage::read_peaks(std::uint32_t process, bool is_attached, bool is_limited) {
  const double peak = peak_resident_of(process);
  if (is_limited) peak_address_space_ = std::max(peak_address_space_, peak_address_space_of(process));
  const bool is_of_before = is_attached && peak <= static_cast<double>(at_start_.peak_bytes);
  return is_of_before ? 0 : peak;
}

void process_usage::raise_peak(double resident_bytes) {
  peak_resident_ = std::max(peak_resident_, resident_bytes);
}

void process_usage::add_child(const process_usage& child, double allocations, double own_faults,
                              const counter_row& counters) {
  children_.processes += 1 + child.children_.processes;
  children_.allocations += allocations;
  children_.own_faults += child.children_.own_faults + child.early_own_faults_;
  children_.own_faults += own_faults;
  early_faults_ += child.early_faults_;
  children_.used.minor_faults += counters.faults;
  children_.used.major_faults += counters.major_faults;
  children_.used.user_ns += counters.user_ns;
  children_.used.system_ns += counters.system_ns;
}

void process_usage::fill(counter_row& row) const {
  const auto since = [](double now, std::uint64_t start) {
    return std::max(0.0, now - static_cast<double>(start));
  };
  const process_counters& children = children_.used;
  row.resident_bytes = last_.resident_bytes;
  row.faults = since(last_.minor_faults, before_.minor_faults) + children.minor_faults;
  row.major_faults = since(last_.major_faults, before_.major_faults) + children.major_faults;
  row.user_ns = since(last_.user_ns, before_.user_ns) + children.user_ns;
  row.system_ns = since(last_.system_ns, before_.system_ns) + children.system_ns;
}

void process_usage::fill_faults(profile& result, const process_page* page, double seen_faults) const {
  double own = 0;
  if (page != nullptr) {
    own = static_cast<double>(page->own_faults.load(std::memory_order_relaxed));  // an independent counter
    if (is_loading_left_out()) own -= std::min(own, static_cast<double>(page->own_faults_before));
    own += early_own_faults_;
    result.other_faults += early_faults_;
  }
  own += children_.own_faults;
  const double all =
      last_.minor_faults - static_cast<double>(before_.minor_faults) + children_.used.minor_faults;
  const double unseen = all - own - seen_faults - early_faults_;
  result.unseen_faults = std::max(0.0, unseen);
  // The recorder's own faults were observed as well, on none of the program's blocks.
  result.other_faults = std::max(0.0, result.other_faults - std::min(own, std::max(0.0, -unseen)));
}

void process_usage::fill(nlohmann::json& meta) const {
  meta["small_children"] = {{"processes", children_.processes}, {"allocations", children_.allocations}};
  meta["peak_resident_bytes"] = peak_resident_;
  meta["peak_resident_exact"] = is_peak_exact_;
  if (peak_address_space_ > 0) meta["peak_address_bytes"] = peak_address_space_;
}

}  // namespace tarn::profiler
